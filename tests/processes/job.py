"""Jobs of several processes on this machine, for tests."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from collections.abc import Sequence
from types import TracebackType

FOLDER = pathlib.Path(__file__).parent
HOST = "127.0.0.1"
# For all that a job does; it takes a tenth of it where nothing else runs.
TIME_LIMIT = 300.0
POLL_INTERVAL = 0.05
SHOWN_CHARACTERS = 4000


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        # All at once, so that they differ.
        sockets = [
            stack.enter_context(socket.create_server((HOST, 0)))
            for _ in range(count)
        ]
        return [each.getsockname()[1] for each in sockets]


class Job:
    """Processes that run one of this folder's scripts.

    Each finds its place in TF_CONFIG, and its output goes to a file. They run
    while the job is entered: who leaves it ends them all.

    Args:
        script: The script's file name.
        tasks: How many processes there are of each type, "worker" for example.
        folder: Where they run, and write.
        *arguments: The script's arguments.
    """

    def __init__(
        self,
        script: str,
        tasks: Mapping[str, int],
        folder: pathlib.Path,
        *arguments: object,
    ) -> None:
        self._command = [
            sys.executable,
            str(FOLDER / script),
            *map(str, arguments),
        ]
        self._tasks = tasks
        self._folder = folder
        self._processes: dict[str, subprocess.Popen] = {}

    def __enter__(self) -> Job:
        ports = iter(_free_ports(sum(self._tasks.values())))
        cluster = {
            kind: [f"{HOST}:{next(ports)}" for _ in range(count)]
            for kind, count in self._tasks.items()
        }
        for kind, addresses in cluster.items():
            for index in range(len(addresses)):
                task = {"type": kind, "index": index}
                self._start(f"{kind}_{index}", cluster, task)
        return self

    def _start(self, name: str, cluster: object, task: object) -> None:
        path = [str(FOLDER.parent), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": task}),
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
        }
        with self._log(name).open("wb") as log:
            self._processes[name] = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill(*self._processes)

    def kill(self, *names: str) -> None:
        """Ends these processes as `kill -9` does."""
        for name in names:
            self._processes[name].kill()
        for name in names:
            self._processes[name].wait()

    def wait(self, *names: str) -> None:
        """Waits until these have ended well.

        Args:
            *names: "worker_0" for example.

        Raises:
            AssertionError: If a process of the job failed, or they took too
                long; with what they printed.
        """
        deadline = time.monotonic() + TIME_LIMIT
        while True:
            codes = {n: p.poll() for n, p in self._processes.items()}
            if all(codes[name] == 0 for name in names):
                return
            failed = [name for name, code in codes.items() if code]
            if failed or time.monotonic() > deadline:
                raise AssertionError(
                    f"{failed or names} failed or took too long (return codes: "
                    f"{codes})\n{self._output(failed or names)}"
                )
            time.sleep(POLL_INTERVAL)

    def _log(self, name: str) -> pathlib.Path:
        return self._folder / f"{name}.log"

    def _output(self, names: Sequence[str]) -> str:
        return "\n".join(
            f"--- {name} ---\n"
            + self._log(name).read_text(errors="replace")[-SHOWN_CHARACTERS:]
            for name in names
        )
