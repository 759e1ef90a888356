"""CONTRIBUTING.md's "Add an optimizer", followed in a copy of the sources.

The new optimizer is Lion under another name. Its loops compile, and it passes
the registry's tests with the composed implementation.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[1]
# What CONTRIBUTING.md names: new files, and files with a list of optimizers.
FILES = [
    "tf_opt/cc/rules/lion.h",
    "tf_opt/python/functional/lion_rule.py",
    "tf_opt/python/optimizers/lion.py",
    "tests/reference/lion.py",
]
LISTS = [
    "tf_opt/optimizers.bzl",
    "tf_opt/__init__.py",
    "tf_opt/functional.py",
    "tests/registry.py",
    "benchmarks/variants.py",
]


def renamed(text: str) -> str:
    # Keras has no such class.
    text = text.replace(", keras.optimizers.Lion)", ")")
    for name, new in ("lion", "toy"), ("Lion", "Toy"), ("LION", "TOY"):
        text = text.replace(name, new)
    return text


def with_both(text: str) -> str:
    """Follows each line about Lion by one about the new optimizer."""
    return re.sub(
        r"(?m)^.*lion.*\n", lambda x: x[0] + renamed(x[0]), text, flags=re.I
    )


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    copy = tmp_path_factory.mktemp("sources")
    for name in ("benchmarks", "build_deps", "tests", "tf_opt", "tools"):
        shutil.copytree(
            ROOT / name,
            copy / name,
            ignore=shutil.ignore_patterns("__pycache__", ".*"),
        )
    files = ("WORKSPACE", "BUILD", ".bazelrc", "pyproject.toml")
    for name in (*files, "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, copy / name)
    for name in FILES:
        new = copy / name.replace("lion", "toy")
        assert not new.exists()
        new.write_text(renamed((copy / name).read_text()))
    for name in LISTS:
        text = (copy / name).read_text()
        (copy / name).write_text(with_both(text))
        assert "toy" in (copy / name).read_text(), name
    return copy


def run(*command: str, sources: pathlib.Path, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=sources,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_its_loops_compile(sources, tmp_path):
    run(
        *("bazel", "--batch", f"--output_user_root={tmp_path}", "build"),
        "//tf_opt/cc/engines/cpu:toy_loops",
        sources=sources,
        TF_OPT_PYTHON=sys.executable,
    )


def test_it_passes_the_tests_of_the_registry(sources, tmp_path):
    # Not in a folder that looks like the source tree.
    package = tmp_path / "package"
    shutil.copytree(sources / "tf_opt", package / "tf_opt")
    # The copy has no documents, and no library.
    chosen = "(Toy or toy or test_registry) and not README and not docs/"
    chosen += (
        " and not keras_cl and not custom_op and not features and not reference"
    )
    report = run(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("-k", chosen),
        *("test_registry.py", "test_functional.py", "test_whole_step.py"),
        *("test_signatures.py", "test_unroll.py", "test_documents.py"),
        sources=sources / "tests",
        PYTHONPATH=str(package),
        TF_OPT_DISABLE_CUSTOM_OPS="1",
    )
    assert int(re.search(r"(\d+) passed", report)[1]) > 20
