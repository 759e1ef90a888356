"""Command `python -m tf_opt`: prints versions and the kernels that run.

With `--report`, it also prints what else a report of a problem needs: the
Python, the machine, and environment variables that change what runs.
"""

import argparse
import contextlib
import os
import platform

from tf_opt.python.build_info import build_info

# Names of environment variables. Others, such as Terraform's TF_TOKEN_..., may
# be secret.
_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "GLIBC_TUNABLES",
    "KERAS_BACKEND",
    "OMP_NUM_THREADS",
    "TF_DETERMINISTIC_OPS",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_GPU_ALLOCATOR",
    "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_OPT_CPU_TARGET",
    "TF_OPT_DISABLE_CUSTOM_OPS",
    "TF_USE_LEGACY_KERAS",
    "TF_XLA_FLAGS",
    "XLA_FLAGS",
)


def _environment() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "system": f"{platform.platform()}, {platform.machine()}",
        "processor": _processor(),
        "environment": " ".join(
            f"{name}={os.environ[name]}"
            for name in _VARIABLES
            if name in os.environ
        )
        or "nothing that changes what runs",
    }


def _processor() -> str:
    """Describes the processor, as Linux does, with the cores to run on."""
    fields = {}
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        for line in file:
            name, _, value = line.partition(":")
            fields.setdefault(name.strip(), value.strip())
    model = fields.get("model name") or platform.processor() or "unknown"
    numbers = (
        f"{name} {fields[name]}"
        for name in ("cpu family", "model")
        if name in fields
    )
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count()
    return ", ".join([model, *numbers, f"{cores} cores"])


def main() -> None:
    """Prints `build_info()` and perhaps more, one entry per line."""
    parser = argparse.ArgumentParser(
        prog="python -m tf_opt",
        description="Prints versions and the kernels that run.",
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="print what to paste into a report of a problem",
    )
    entries = build_info()
    if parser.parse_args().report:
        entries |= _environment()
    width = max(map(len, entries))
    for key, value in entries.items():
        print(f"{key:<{width}}  {value}")


if __name__ == "__main__":
    main()
