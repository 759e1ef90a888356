"""Collects what goes into the wheel: `stage_package.py STAGING BINARIES...`.

STAGING is an empty folder, from which setuptools can make the wheel then. Each
folder BINARIES is one that Bazel put the library for a TensorFlow minor into.
Prints the version.
"""

import json
import pathlib
import runpy
import shutil
import sys

import source_version

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


def stage(staging: pathlib.Path, binaries: list[pathlib.Path]) -> str:
    """Copies sources and binaries, and writes down what the wheel requires.

    Without binaries this is the pure wheel. Returns the version.
    """
    left_out = shutil.ignore_patterns(
        "cc", "BUILD", "__pycache__", "*.bzl", "*.lds"
    )
    # Not by copytree: the sources, and so its copies, may be read-only.
    for path in (_ROOT / "tf_opt").rglob("*"):
        name = path.relative_to(_ROOT)
        if path.is_file() and not left_out("", name.parts):
            _copy(path, staging / name)
    (staging / "tf_opt/commit.txt").write_text(source_version.commit())
    built = [_copy_library(folder, staging) for folder in binaries]
    for name in _METADATA:
        _copy(_ROOT / name, staging / name)

    versions = runpy.run_path(str(_ROOT / "tf_opt/version.py"))
    minors = list(versions["TENSORFLOW_MINORS"])
    built_against = [library["tensorflow"] for library in built] or [
        f"{minor}.0" for minor in minors
    ]
    version = source_version.version(_local(built, minors))
    path = staging / "tf_opt/version.py"
    base = f'__version__ = "{versions["__version__"]}"'
    path.write_text(
        path.read_text().replace(base, f'__version__ = "{version}"')
    )

    tensorflow = _tensorflow_requirement(built_against, minors[0])
    keras = _keras_requirement(built_against, versions["MINIMUM_KERAS"])
    requires = staging / "requires"
    requires.mkdir()
    (requires / "keras.txt").write_text(f"{keras}\n")
    (requires / "tensorflow.txt").write_text(f"tensorflow{tensorflow}\n")
    # Elsewhere the one without GPUs has no name of its own.
    has_cpu = "sys_platform == 'linux' and platform_machine == 'x86_64'"
    has_not = "sys_platform != 'linux' or platform_machine != 'x86_64'"
    (requires / "tensorflow-cpu.txt").write_text(
        f"tensorflow-cpu{tensorflow}; {has_cpu}\n"
        f"tensorflow{tensorflow}; {has_not}\n"
    )
    # Its minors are TensorFlow's.
    (requires / "keras2.txt").write_text(f"tf-keras{tensorflow}\n")
    return version


def _local(built: list[dict], minors: list[str]) -> list[str]:
    """Says what a wheel lacks or has, for its version's local part."""
    found = sorted(_numbers(library["tensorflow"]) for library in built)
    has_all = not built or found == [_numbers(minor) for minor in minors]
    result = [] if has_all else ["tf{}{}".format(*minor) for minor in found]
    if built and built[0]["cuda"]:
        result.append("cu" + built[0]["cuda"].replace(".", ""))
    return result


if __name__ == "__main__":
    print(
        stage(pathlib.Path(sys.argv[1]), list(map(pathlib.Path, sys.argv[2:])))
    )
