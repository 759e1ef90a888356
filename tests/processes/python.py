"""Python code in a process of its own, which begins with Keras imported."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap

from processes import job


def _execute(
    code: str, folder: str, path: list[str], environment: dict[str, str]
) -> None:
    for stream, name in enumerate(("stdout", "stderr"), 1):
        flags = os.O_WRONLY | os.O_CREAT
        os.dup2(os.open(os.path.join(folder, name), flags), stream)
    os.environ.update(environment)
    sys.path[:0] = path
    os.chdir("/")
    exec(code, {"__name__": "__main__"})


def run(
    code: str, package: pathlib.Path | None = None, **environment: str
) -> str:
    """Runs code, which may be indented, and returns what it printed.

    The process has not imported tf_opt, which may be another `package` than the
    installed one; Keras and TensorFlow are imported before `environment` is
    set. If the code raises, the error has its traceback.
    """
    path = [] if package is None else [str(package.parent)]
    with tempfile.TemporaryDirectory() as folder:
        process = job.CONTEXT.Process(
            target=_execute,
            args=(textwrap.dedent(code), folder, path, environment),
            daemon=True,
        )
        process.start()
        process.join(job.TIME_LIMIT)
        process.kill()
        stdout, stderr = (
            pathlib.Path(folder, name).read_text()
            for name in ("stdout", "stderr")
        )
    assert process.exitcode == 0, stderr
    return stdout


def run_alone(
    *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs Python with an environment that Keras or TensorFlow reads."""
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        # Not the source tree, whose package `python -c` would import.
        cwd="/",
        timeout=job.TIME_LIMIT,
    )
