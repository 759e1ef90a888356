"""Jobs of several processes on this machine, for tests."""

import contextlib
import faulthandler
import json
import multiprocessing
import os
import pathlib
import socket
import time
from collections.abc import Callable, Iterator, Mapping

HOST = "127.0.0.1"
# For all that a job does; it takes a tenth of it where nothing else runs.
TIME_LIMIT = 300.0
POLL_INTERVAL = 0.02
SHOWN_CHARACTERS = 4000

# Each process begins with what takes seconds to import. Not with tf_opt: the
# fork server looks for modules in the working folder, too, where its source is.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["keras"])


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
    """Processes that run, by name, such as worker_0."""

    def __init__(self, logs: pathlib.Path) -> None:
        self.logs = logs
        self.processes: dict[str, multiprocessing.Process] = {}
        self._deadline = time.monotonic() + TIME_LIMIT

    def wait(self, *names: str) -> None:
        """Waits until these have ended well; raises as `check` does."""
        while any(self.processes[n].exitcode != 0 for n in names):
            self.check()

    def check(self) -> None:
        """Waits for a moment.

        If a process of the job failed, or it took too long, the error has what
        they printed.
        """
        time.sleep(POLL_INTERVAL)
        codes = {n: p.exitcode for n, p in self.processes.items()}
        failed = [name for name, code in codes.items() if code]
        if failed or time.monotonic() > self._deadline:
            lines = [f"exit codes: {codes}"]
            for name in failed or codes:
                output = (self.logs / f"{name}.log").read_text(errors="replace")
                lines.append(f"{name}: {output[-SHOWN_CHARACTERS:]}")
            raise AssertionError("\n".join(lines))


@contextlib.contextmanager
def start(
    target: Callable[..., None],
    tasks: Mapping[str, int],
    logs: pathlib.Path,
    *arguments: object,
) -> Iterator[Job]:
    """Calls a function in processes, each with its place in TF_CONFIG.

    `tasks` has the number of processes of each type. All are killed in the end.
    What they print goes to files in `logs`: errors to worker_0.log, the rest to
    worker_0.out.
    """
    with contextlib.ExitStack() as stack:
        # All at once, so that ports differ.
        servers = {
            kind: [
                stack.enter_context(socket.create_server((HOST, 0)))
                for _ in range(count)
            ]
            for kind, count in tasks.items()
        }
        cluster = {
            kind: [f"{HOST}:{each.getsockname()[1]}" for each in sockets]
            for kind, sockets in servers.items()
        }
    job = Job(logs)
    try:
        for kind, count in tasks.items():
            for index in range(count):
                log = logs / f"{kind}_{index}.log"
                log.touch()
                task = {"type": kind, "index": index}
                tf_config = json.dumps({"cluster": cluster, "task": task})
                process = job.processes[log.stem] = CONTEXT.Process(
                    target=_run,
                    args=(target, tf_config, log, *arguments),
                    daemon=True,
                )
                process.start()
        yield job
    finally:
        for process in job.processes.values():
            process.kill()
            process.join()
