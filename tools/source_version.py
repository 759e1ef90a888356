"""The version of what is built from this source tree.

A commit with the tag v0.1.0 is version 0.1.0. Any other one is 0.1.0.devN+gSHA,
after N commits since `__version__` was changed to 0.1.0. Two builds of
different code never have the same version, so that pip replaces one by the
other.
"""

from __future__ import annotations

import functools
import hashlib
import pathlib
import runpy
import subprocess
from collections.abc import Sequence

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_FILE = "tf_opt/version.py"
# In an archive that git makes, this is the commit, and its tags.
_ARCHIVED = "$Format:%H %D$"


@functools.cache
def _git(*arguments: str) -> str:
    """Returns what git prints; nothing if it isn't there, or can't tell."""
    # The folder of an unpacked archive may be inside of another repository.
    if not (_ROOT / ".git").exists():
        return ""
    # Git refuses the folder of another user, such as one that is mounted into a
    # container, unless it is told that the folder is safe.
    command = ["git", "-c", f"safe.directory={_ROOT}", "-C", str(_ROOT)]
    try:
        result = subprocess.run(
            [*command, *arguments], capture_output=True, text=True
        )
    except OSError:
        return ""
    return result.stdout.strip()


def _commit_and_tags() -> tuple[str, Sequence[str]]:
    """Returns the commit, or "unknown", and its tags."""
    if commit := _git("rev-parse", "HEAD"):
        return commit, _git("tag", "--points-at", "HEAD").split()
    if _ARCHIVED.startswith("$"):
        return "unknown", ()
    commit, _, names = _ARCHIVED.partition(" ")
    return commit, names.replace("tag: ", "").split(", ")


def _count() -> int:
    """Counts the commits since the version was changed."""
    begin = _git("log", "-1", "--format=%H", "-G^__version__", "--", _FILE)
    return int(_git("rev-list", "--count", f"{begin}..HEAD") or 0)


def _digest() -> str:
    digest = hashlib.sha256()
    # What decides about the Python files and the library.
    folders = (_ROOT / name for name in ("build_deps", "tf_opt", "tools"))
    for path in sorted(x for folder in folders for x in folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.read_bytes())
    # Of a number, pip would drop the zeros that it begins with.
    return "d" + digest.hexdigest()[:8]


def commit() -> str:
    """Returns the commit; it ends with +changes if files differ from it."""
    changes = "+changes" if _git("status", "--porcelain") else ""
    return _commit_and_tags()[0] + changes


def version(local: Sequence[str] = ()) -> str:
    """Returns the version; `local` says how this build differs from others."""
    base = runpy.run_path(str(_ROOT / _FILE))["__version__"]
    commit, tags = _commit_and_tags()
    is_changed = bool(_git("status", "--porcelain"))
    is_release = f"v{base}" in tags and not is_changed
    parts = [] if is_release else [f"g{commit[:8]}"]
    if commit == "unknown":
        parts = ["unknown", _digest()]
    elif is_changed:
        parts += ["changes", _digest()]
    suffix = "" if is_release else f".dev{_count()}"
    return "+".join(filter(None, [base + suffix, ".".join([*parts, *local])]))
