"""On what a benchmark ran."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import platform
import re

import tf_opt

_PACKAGES = (
    "tf_opt",
    "tensorflow",
    "tensorflow-cpu",
    "keras",
    "torch",
    "numpy",
)


def count_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _cpu_model() -> str:
    text = pathlib.Path("/proc/cpuinfo").read_text()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1) if found else platform.processor()


def _memory_gib() -> float:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return round(pages / 2**30, 1)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def describe() -> dict:
    """The machine and the software, ready for JSON."""
    return {
        "cpu": _cpu_model(),
        "cores": count_cores(),
        "memory_gib": _memory_gib(),
        "system": platform.platform(),
        "versions": _versions(),
        "tf_opt_build_info": tf_opt.build_info(),
    }
