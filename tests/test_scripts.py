"""The shell scripts, in an environment that isn't the developers' own."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

import pytest

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


def test_the_scripts_are_found():
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
