"""Report of the installed versions and the kernels that run."""

from __future__ import annotations

import pathlib

import keras
import tensorflow as tf

from tf_opt.python.ops import gpu, library
from tf_opt.version import __version__

# Only a wheel has this file (tools/stage_package.py).
_COMMIT = pathlib.Path(__file__).parents[1] / "commit.txt"


def _wheel(loaded: library.Library) -> str:
    """Describes the installed wheel: for GPUs and CPUs, or for CPUs only."""
    if loaded.problem == library.PURE:
        return "pure: for every system, without custom ops"
    if not loaded.minors:
        return "none: no library was built"
    if loaded.cuda is None:
        return "CPU"
    return (
        f"GPU and CPU (CUDA {loaded.cuda}, for compute capability "
        f"{gpu.COMPUTE_CAPABILITY} and later; needs NVIDIA driver "
        f"{loaded.minimum_driver} or later)"
    )


def build_info() -> dict[str, str]:
    """Returns the versions in use and the kernels that are loaded.

    Returns:
        A dictionary of strings, in the order to print them:

        - `tf_opt`, `tensorflow`, `keras`: the installed versions.
        - `commit`: the git commit that the wheel was made from, with
          `+changes` if files had changed since; `"unknown"` if it was made
          without git.
        - `wheel`: whether this is the wheel with kernels for GPUs, with its
          CUDA version and the driver it needs; or the pure wheel.
        - `libraries`: the TensorFlow minor versions that the wheel has a
          library for.
        - `built_against`: the TensorFlow version that the library in use was
          compiled against.
        - `custom_ops`: `"loaded"`, or the reason why they aren't.
        - `cpu_kernels`: the instruction set chosen at run time (`baseline`,
          `avx2` or `avx512`; on ARM `neon`).
        - `cuda_kernels`: `"loaded"`, or the reason why they aren't used. In
          that case GPUs run the composed implementation.
        - `gpus`: the GPUs that TensorFlow found.

    Example:

    >>> import tf_opt
    >>> tf_opt.build_info()["tf_opt"] == tf_opt.__version__
    True
    """
    loaded = library.library()
    gpu_problem = gpu.problem()
    return {
        "tf_opt": __version__,
        "commit": _COMMIT.read_text() if _COMMIT.exists() else "unknown",
        "wheel": _wheel(loaded),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "libraries": "for TensorFlow " + (", ".join(loaded.minors) or "none"),
        "built_against": loaded.built_against or "none for this TensorFlow",
        "custom_ops": loaded.problem or "loaded",
        "cpu_kernels": loaded.cpu_target
        or "none: the composed implementation runs",
        "cuda_kernels": (f"unused: {gpu_problem}" if gpu_problem else "loaded"),
        "gpus": ", ".join(gpu.names()) or "none found",
    }
