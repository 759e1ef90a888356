"""Collects what goes into the wheel: `stage_package.py BINARIES STAGING`.

BINARIES is the folder that Bazel put the library into, STAGING an empty one
from which `python -m build` can make the wheel.
"""

import json
import pathlib
import runpy
import shutil
import sys

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_OPS = pathlib.Path("tf_opt/python/ops")
_BINARIES = ("_tf_opt_ops.so", "built_against.json")
_METADATA = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "tools/platform_wheel.py",
)


def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _tensorflow_requirement(minor: str, built_against: str) -> str:
    """What follows TensorFlow's name: the minor that the library needs."""
    major, minor_number = minor.split(".")
    if built_against.split(".")[:2] != [major, minor_number]:
        sys.exit(
            f"Error: tf_opt/version.py says TensorFlow {minor}, but the "
            f"library was built against {built_against}. Change "
            "TENSORFLOW_MINOR there, or the TensorFlow in requirements/."
        )
    return f">={minor},<{major}.{int(minor_number) + 1}"


def stage(binaries: pathlib.Path, staging: pathlib.Path) -> None:
    """Copies sources and binaries, and writes down what the wheel requires."""
    shutil.copytree(
        _ROOT / "tf_opt",
        staging / "tf_opt",
        ignore=shutil.ignore_patterns("cc", "BUILD", "__pycache__"),
    )
    for name in _BINARIES:
        _copy(binaries / _OPS / name, staging / _OPS / name)
    for name in _METADATA:
        _copy(_ROOT / name, staging / name)

    version = runpy.run_path(str(_ROOT / "tf_opt/version.py"))
    built_against = json.loads(
        (staging / _OPS / "built_against.json").read_text()
    )
    tensorflow = _tensorflow_requirement(
        version["TENSORFLOW_MINOR"], built_against["tensorflow"]
    )
    requires = staging / "requires"
    requires.mkdir()
    # A wheel with kernels for GPUs says so in its version's local part.
    cuda = built_against["cuda"].replace(".", "")
    local = f"+cu{cuda}" if cuda else ""
    (requires / "version.txt").write_text(version["__version__"] + local)
    (requires / "keras.txt").write_text(f"keras>={version['MINIMUM_KERAS']}\n")
    for distribution in ("tensorflow", "tensorflow-cpu"):
        (requires / f"{distribution}.txt").write_text(
            f"{distribution}{tensorflow}\n"
        )


if __name__ == "__main__":
    stage(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
