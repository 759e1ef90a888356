"""Jobs of several processes on this machine, for tests."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import multiprocessing
import os
import pathlib
import socket
import time
from collections.abc import Callable
from collections.abc import Mapping
from types import TracebackType

HOST = "127.0.0.1"
# For all that a job does; it takes a tenth of it where nothing else runs.
TIME_LIMIT = 300.0
POLL_INTERVAL = 0.02
SHOWN_CHARACTERS = 4000

# Each process begins with what takes seconds to import. Not with tf_opt: the
# fork server looks for modules in the working folder, too, where its source is.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["keras"])


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        # All at once, so that they differ.
        sockets = [
            stack.enter_context(socket.create_server((HOST, 0)))
            for _ in range(count)
        ]
        return [each.getsockname()[1] for each in sockets]


def _run(
    target: Callable[..., None],
    tf_config: str,
    log: pathlib.Path,
    *arguments: object,
) -> None:
    for stream, file in ((1, log.with_suffix(".out")), (2, log)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    # Should it be left alone, it ends itself, and says where it was.
    faulthandler.dump_traceback_later(TIME_LIMIT, exit=True, file=2)
    os.environ["TF_CONFIG"] = tf_config
    target(*arguments)


class Job:
    """Processes that call one function, each with its place in TF_CONFIG.

    They run while the job is entered: who leaves it ends them all. What they
    print goes to files in `logs`: errors to worker_0.log, the rest to
    worker_0.out. `tasks` says how many processes there are of each type.
    """

    def __init__(
        self,
        target: Callable[..., None],
        tasks: Mapping[str, int],
        logs: pathlib.Path,
        *arguments: object,
    ) -> None:
        self._target = target
        self._tasks = tasks
        self._logs = logs
        self._arguments = arguments
        self._processes: dict[str, multiprocessing.Process] = {}
        self._deadline = time.monotonic() + TIME_LIMIT

    def __enter__(self) -> Job:
        ports = iter(_free_ports(sum(self._tasks.values())))
        cluster = {
            kind: [f"{HOST}:{next(ports)}" for _ in range(count)]
            for kind, count in self._tasks.items()
        }
        for kind, addresses in cluster.items():
            for index in range(len(addresses)):
                task = {"type": kind, "index": index}
                tf_config = json.dumps({"cluster": cluster, "task": task})
                name = f"{kind}_{index}"
                self._log(name).touch()
                process = CONTEXT.Process(
                    target=_run,
                    args=(
                        self._target,
                        tf_config,
                        self._log(name),
                        *self._arguments,
                    ),
                    daemon=True,
                )
                process.start()
                self._processes[name] = process
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.join()

    def wait(self, *names: str) -> None:
        """Waits until these have ended well; raises as `check` does."""
        while any(self._processes[n].exitcode != 0 for n in names):
            self.check()

    def check(self) -> None:
        """Waits for a moment.

        If a process of the job failed, or it took too long, the error has what
        they printed.
        """
        time.sleep(POLL_INTERVAL)
        codes = {n: p.exitcode for n, p in self._processes.items()}
        failed = [name for name, code in codes.items() if code]
        if failed or time.monotonic() > self._deadline:
            output = "\n".join(
                f"{name}: {self._output(name)}" for name in failed or codes
            )
            raise AssertionError(f"exit codes: {codes}\n{output}")

    def _log(self, name: str) -> pathlib.Path:
        return self._logs / f"{name}.log"

    def _output(self, name: str) -> str:
        output = self._log(name).read_text(errors="replace")
        return output[-SHOWN_CHARACTERS:]
