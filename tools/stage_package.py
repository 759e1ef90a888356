"""Collects what goes into the wheel: `stage_package.py STAGING BINARIES...`.

STAGING is an empty folder, from which `python -m build` can make the wheel
then. Each folder BINARIES is one that Bazel put the library for a TensorFlow
minor into.
"""

import json
import pathlib
import runpy
import shutil
import subprocess
import sys

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_OPS = pathlib.Path("tf_opt/python/ops")
_METADATA = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "THIRD_PARTY_NOTICES.md",
    "tools/platform_wheel.py",
)


def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _copy_library(binaries: pathlib.Path, staging: pathlib.Path) -> dict:
    """Copies one library; returns what it was built against."""
    built = json.loads((binaries / _OPS / "built_against.json").read_text())
    major, minor = _numbers(built["tensorflow"])
    for name in ("_tf_opt_ops.so", "built_against.json"):
        _copy(
            binaries / _OPS / name,
            staging / _OPS / "libraries" / f"{major}.{minor}" / name,
        )
    return built


def _numbers(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _is_prerelease(tensorflow: str) -> bool:
    return not tensorflow.replace(".", "").isdigit()


def _tensorflow_requirement(built_against: list[str], oldest: str) -> str:
    """What follows TensorFlow's name: the minors with a library."""
    built = sorted(built_against, key=_numbers)
    first, last = built[0], built[-1]
    if _numbers(first) < _numbers(oldest):
        sys.exit(
            f"Error: tf_opt/version.py is for TensorFlow {oldest} and later, "
            f"but a library was built against {first}. Change "
            "TENSORFLOW_MINORS there, or the TensorFlow in requirements/."
        )
    # A pre-release is lower than its minor; tf.__version__ has a hyphen in it.
    if not _is_prerelease(first):
        first = first.rpartition(".")[0]
    major, minor = _numbers(last)
    return f">={first.replace('-', '')},<{major}.{minor + 1}"


def _keras_requirement(built_against: list[str], minimum: str) -> str:
    """The Keras that TensorFlow brings; both have the same files."""
    if any(map(_is_prerelease, built_against)):
        return f"keras-nightly>={minimum}.dev0"
    return f"keras>={minimum}"


def commit_of(root: pathlib.Path) -> str:
    """The commit of a source tree, and whether it has changes since."""
    # The folder of an unpacked archive may be inside of another repository.
    if not (root / ".git").exists():
        return "unknown"

    def git(*arguments: str) -> str:
        return subprocess.check_output(
            ["git", "-C", str(root), *arguments],
            stderr=subprocess.DEVNULL,
            text=True,
        ).strip()

    try:
        changes = "+changes" if git("status", "--porcelain") else ""
        return git("rev-parse", "HEAD") + changes
    except (OSError, subprocess.CalledProcessError):
        # There is no git, or it refuses another user's folder.
        return "unknown"


def stage(staging: pathlib.Path, binaries: list[pathlib.Path]) -> None:
    """Copies sources and binaries, and writes down what the wheel requires."""
    shutil.copytree(
        _ROOT / "tf_opt",
        staging / "tf_opt",
        ignore=shutil.ignore_patterns(
            "cc", "BUILD", "__pycache__", "*.bzl", "*.lds"
        ),
    )
    (staging / "tf_opt/commit.txt").write_text(commit_of(_ROOT))
    built = [_copy_library(folder, staging) for folder in binaries]
    for name in _METADATA:
        _copy(_ROOT / name, staging / name)

    version = runpy.run_path(str(_ROOT / "tf_opt/version.py"))
    built_against = [library["tensorflow"] for library in built]
    tensorflow = _tensorflow_requirement(
        built_against, next(iter(version["TENSORFLOW_MINORS"]))
    )
    keras = _keras_requirement(built_against, version["MINIMUM_KERAS"])
    requires = staging / "requires"
    requires.mkdir()
    # A wheel with kernels for GPUs says so in its version's local part.
    cuda = built[0]["cuda"].replace(".", "")
    local = f"+cu{cuda}" if cuda else ""
    (requires / "version.txt").write_text(version["__version__"] + local)
    (requires / "keras.txt").write_text(f"{keras}\n")
    (requires / "tensorflow.txt").write_text(f"tensorflow{tensorflow}\n")
    # On ARM the one without GPUs has no name of its own.
    (requires / "tensorflow-cpu.txt").write_text(
        f"tensorflow-cpu{tensorflow}; platform_machine != 'aarch64'\n"
        f"tensorflow{tensorflow}; platform_machine == 'aarch64'\n"
    )
    # Its minors are TensorFlow's.
    (requires / "keras2.txt").write_text(f"tf-keras{tensorflow}\n")


if __name__ == "__main__":
    stage(pathlib.Path(sys.argv[1]), [pathlib.Path(x) for x in sys.argv[2:]])
