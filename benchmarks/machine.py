"""The machine and the software that a benchmark ran on."""

from __future__ import annotations

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


def _cpu_fields() -> dict[str, str]:
    text = pathlib.Path("/proc/cpuinfo").read_text()
    return dict(re.findall(r"^(.+?)\s*:\s*(.+)$", text, re.MULTILINE))


def describe() -> str:
    """Returns the processor, its cores and the memory."""
    cpu = _cpu_fields().get("model name", platform.processor())
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{cpu}, {count_cores()} cores, {memory / 2**30:.1f} GiB"


def processor() -> str:
    """Returns the processor's maker, family and model, such as "AMD 25.17"."""
    fields = _cpu_fields()
    makers = {"AuthenticAMD": "AMD", "GenuineIntel": "Intel"}
    maker = fields.get("vendor_id", platform.machine())
    family, model = fields.get("cpu family", "?"), fields.get("model", "?")
    return f"{makers.get(maker, maker)} {family}.{model}"


def software() -> str:
    """Returns the versions, and the instruction set of the kernels."""
    versions = [f"python {platform.python_version()}"]
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version = importlib.metadata.version(package)
            versions.append(f"{package} {version}")
    kernels = tf_opt.build_info()["cpu_kernels"]
    return f"{', '.join(versions)}; CPU kernels: {kernels}"
