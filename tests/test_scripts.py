"""The shell scripts, in an environment that isn't the developers' own."""

import os
import pathlib
import re
import runpy
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[1]

FOLDERS = (".", ".ci", "tests", "tests/gpu", "tf_opt/cc/rules", "tools")
SCRIPTS = [
    file.relative_to(ROOT)
    for folder in FOLDERS
    for file in sorted((ROOT / folder).iterdir())
    if file.is_file()
    and os.access(file, os.X_OK)
    and file.read_bytes().startswith(b"#!/usr/bin/env bash\n")
]


assert {"pip_pkg.sh", "tools/bazel", ".ci/run"} <= set(map(str, SCRIPTS))


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_no_cd_depends_on_the_environment(script: pathlib.Path) -> None:
    """With CDPATH, `cd` may go elsewhere, and prints where it went."""
    text = (ROOT / script).read_text()
    first_cd = re.search(r"(?m)^[^#\n]*\bcd ", text)
    if first_cd is not None:
        assert "\nunset CDPATH\n" in text[: first_cd.start()]


def test_bazel_finds_no_packages_in_a_renamed_folders_link(tmp_path):
    """Bazel names one of its links after the folder, and ignores only that."""
    folder = tmp_path / "renamed"
    (folder / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "bazel", folder / "tools")
    for name in ("bin", "out", "testlogs", "renamed", "before"):
        (folder / f"bazel-{name}").symlink_to(tmp_path)
    (folder / "bazel-notes").touch()
    subprocess.run(
        [folder / "tools" / "bazel", "info"],
        check=True,
        env={**os.environ, "BAZEL_REAL": shutil.which("true")},
    )
    left = {x.name for x in folder.glob("bazel-*")}
    assert left == {
        *("bazel-bin", "bazel-out", "bazel-testlogs"),
        *("bazel-renamed", "bazel-notes"),
    }


@pytest.mark.parametrize(
    ("installed", "minor"),
    [
        ("2.21.1", "2.21"),
        ("2.22.0rc0", "2.22"),
        ("2.100.0", "2.100"),
        ("2.17.1", ""),
        ("", ""),
    ],
)
def test_the_wheel_is_for_the_installed_tensorflow(installed, minor, tmp_path):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\ncat >/dev/null\necho {installed}\n")
    python.chmod(0o755)
    found = subprocess.run(
        ["bash", "-euo", "pipefail", "-c"]
        + [". tools/tensorflow_minors.sh; installed_tensorflow_minor"],
        cwd=ROOT,
        env=os.environ | {"PYTHON": str(python)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert found.stdout.strip() == minor
    # Then `python3` is the user's no longer.
    before, *_ = (ROOT / "pip_pkg.sh").read_text().split(".venv/bin:$PATH")
    assert "$(installed_tensorflow_minor)" in before
    assert '"$setup" "$minor"' in before


@pytest.mark.parametrize(
    ("built_against", "tensorflow", "keras"),
    [
        (["2.21.0"], ">=2.21,<2.22", "keras>=3.12"),
        (["2.20.1", "2.18.0", "2.21.0"], ">=2.18,<2.22", "keras>=3.12"),
        (["2.22.0-rc0"], ">=2.22.0rc0,<2.23", "keras-nightly>=3.12.dev0"),
    ],
)
def test_the_wheel_requires_what_it_has_libraries_for(
    built_against, tensorflow, keras, monkeypatch
):
    monkeypatch.syspath_prepend(ROOT / "tools")
    stage = runpy.run_path(str(ROOT / "tools/stage_package.py"))
    assert stage["_tensorflow_requirement"](built_against, "2.18") == tensorflow
    assert stage["_keras_requirement"](built_against, "3.12") == keras
    built = [{"tensorflow": x, "cuda": "12.9"} for x in built_against]
    minors = [f"2.{x}" for x in (18, 20, 21)]
    parts = [f"tf2{x}" for x in range(18, 23) if f"2.{x}." in str(built)]
    local = stage["_local"](built, minors)
    assert local == [*(parts if len(parts) < 3 else []), "cu129"]
    with pytest.raises(SystemExit, match="2.30 and later"):
        stage["_tensorflow_requirement"](built_against, "2.30")


@pytest.mark.parametrize(
    "pattern", ["constraints", "keras2", "older-keras", "tensorflow-*"]
)
def test_what_is_installed_is_pinned_with_its_hash(pattern):
    for path in ROOT.glob(f"requirements/{pattern}.txt"):
        lines = path.read_text().replace("\\\n", "").splitlines()
        requirements = [x for x in lines if x.strip()[:1] not in ("", "#")]
        assert requirements
        for line in requirements:
            assert re.match(r"[a-z][\w.-]+==\S+ .*--hash=sha256:\w{64}", line)
