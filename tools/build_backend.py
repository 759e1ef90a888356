"""Makes the wheel for `pip install .`, `pip install git+...` and the like.

pip_pkg.sh makes it, in a copy of the source: that may be read-only, or have a
space in its path. Where its requirements can't be had, it is the pure wheel.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any

import stage_package
from setuptools import build_meta

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_NOT_SOURCES = (".venv*", "bazel-*", "build", "dist", "__pycache__")


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Makes the wheel in a folder and returns its name (PEP 517)."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = pathlib.Path(temporary)
        if not _is_set_up(folder):
            print(
                "==> Making the pure wheel, which runs without custom ops: "
                "what these need can't be had here (see above)",
                flush=True,
            )
            (folder / "staging").mkdir()
            stage_package.stage(folder / "staging", [])
            os.chdir(folder / "staging")
            try:
                return build_meta.build_wheel(wheel_directory)
            finally:
                # Windows can't remove the folder that a process is in.
                os.chdir(_ROOT)
        _run(folder, "./pip_pkg.sh", str(folder / "wheel"))
        (wheel,) = folder.glob("wheel/*.whl")
        shutil.move(wheel, wheel_directory)
        return wheel.name


def _is_set_up(folder: pathlib.Path) -> bool:
    """Copies the sources, and installs what compiling needs."""
    if sys.platform != "linux":
        print(f"The custom ops are for Linux, and this is {sys.platform}")
        return False
    source = folder / "tf_opt"
    ignore = shutil.ignore_patterns(*_NOT_SOURCES)
    shutil.copytree(_ROOT, source, symlinks=True, ignore=ignore)
    for path in [source, *filter(os.path.isdir, source.rglob("*"))]:
        path.chmod(0o755)
    try:
        _run(folder, "tools/setup.sh", "build")
    except subprocess.CalledProcessError:
        return False
    return True


def _run(folder: pathlib.Path, *command: str) -> None:
    environment = {
        # Where pip puts packages for this backend, which hide TensorFlow.
        **{k: x for k, x in os.environ.items() if k != "PYTHONPATH"},
        "PYTHON": sys.executable,
        # Bazel works in it, and soon ends.
        "TEST_TMPDIR": str(folder / "bazel"),
    }
    subprocess.run(command, cwd=folder / "tf_opt", env=environment, check=True)
