"""Python code in a process of its own, which begins with Keras imported."""

import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap

from processes import job


def _execute(code: str, path: list[str], environment: dict[str, str]) -> None:
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
    arguments = textwrap.dedent(code), path, environment
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with job.start(_execute, {"worker": 1}, folder, *arguments) as process:
            process.wait("worker_0")
        return (folder / "worker_0.out").read_text()


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
