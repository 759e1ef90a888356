"""The version of what is built from this source tree.

A commit with the tag v0.1.0 is version 0.1.0. Any other one is 0.1.0.devN+gSHA,
after N commits since `__version__` was changed to 0.1.0. Two builds with
different code in tf_opt/ never have the same version, so that pip replaces one
by the other.
"""

from __future__ import annotations

import hashlib
import pathlib
import runpy
import subprocess
from collections.abc import Sequence

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_FILE = "tf_opt/version.py"
# In an archive that git makes, this is the commit, and its tags.
_ARCHIVED = "$Format:%H %D$"


def _git(*arguments: str) -> str:
    # The folder of an unpacked archive may be inside of another repository.
    if not (_ROOT / ".git").exists():
        raise FileNotFoundError(".git")
    return subprocess.check_output(
        ["git", "-C", str(_ROOT), *arguments],
        stderr=subprocess.DEVNULL,
        text=True,
    ).strip()


def _commit_and_tags() -> tuple[str, list[str]]:
    """Returns the commit, or "unknown", and its tags."""
    try:
        commit = _git("rev-parse", "HEAD")
        return commit, _git("tag", "--points-at", "HEAD").split()
    except (OSError, subprocess.CalledProcessError):
        # There is no git, or it refuses another user's folder.
        commit, _, names = _ARCHIVED.partition(" ")
    if commit.startswith("$"):
        return "unknown", []
    return commit, [x.removeprefix("tag: ") for x in names.split(", ")]


def _count() -> int:
    """Counts the commits since the version was changed."""
    try:
        begin = _git("log", "-1", "--format=%H", "-G^__version__", "--", _FILE)
        return int(_git("rev-list", "--count", f"{begin}..HEAD"))
    except (OSError, subprocess.CalledProcessError):
        return 0


def _is_changed() -> bool:
    try:
        return bool(_git("status", "--porcelain"))
    except (OSError, subprocess.CalledProcessError):
        return False


def _digest() -> str:
    # pip would drop a number's leading zeros.
    digest = hashlib.sha256()
    for path in sorted((_ROOT / "tf_opt").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.read_bytes())
    return "d" + digest.hexdigest()[:8]


def commit() -> str:
    """Returns the commit; it ends with +changes if files differ from it."""
    return _commit_and_tags()[0] + ("+changes" if _is_changed() else "")


def version(local: Sequence[str] = ()) -> str:
    """Returns the version; `local` says how this build differs from others."""
    base = runpy.run_path(str(_ROOT / _FILE))["__version__"]
    commit, tags = _commit_and_tags()
    is_changed = _is_changed()
    is_release = f"v{base}" in tags and not is_changed
    parts = [] if is_release else [f"g{commit[:8]}"]
    if commit == "unknown":
        parts = ["unknown", _digest()]
    elif is_changed:
        parts += ["changes", _digest()]
    suffix = "" if is_release else f".dev{_count()}"
    return "+".join(filter(None, [base + suffix, ".".join([*parts, *local])]))
