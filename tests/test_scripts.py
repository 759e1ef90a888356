"""The shell scripts, in an environment that isn't the developers' own."""

from __future__ import annotations

import os
import pathlib
import re

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
