"""The machine and the software that a benchmark ran on."""

import contextlib
import importlib.metadata
import os
import pathlib
import platform
import re

import tf_opt

_PACKAGES = (
    "tf_opt tensorflow tensorflow-cpu keras tf_keras torch numpy"
).split()


def count_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def describe() -> str:
    """Returns the processor, its cores and the memory."""
    fields = pathlib.Path("/proc/cpuinfo").read_text()
    named = re.search(r"^model name\s*:\s*(.+)$", fields, re.MULTILINE)
    cpu = named.group(1) if named else platform.processor()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{cpu}, {count_cores()} cores, {memory / 2**30:.1f} GiB"


def software() -> str:
    """Returns the versions, and the instruction set of the kernels."""
    versions = [f"python {platform.python_version()}"]
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version = importlib.metadata.version(package)
            versions.append(f"{package} {version}")
    kernels = tf_opt.build_info()["cpu_kernels"]
    return f"{', '.join(versions)}; CPU kernels: {kernels}"
