"""What is installed and which kernels run."""

from __future__ import annotations

import keras
import tensorflow as tf

from tf_opt.python import dispatch
from tf_opt.python.ops import gpu
from tf_opt.python.ops import library
from tf_opt.version import __version__

_COMPOSED = "the composed implementation runs"


def _wheel(loaded: library.Library) -> str:
    """Which of the two wheels this is."""
    if not loaded.minors:
        return "none: no library was built"
    if loaded.cuda is None:
        return "CPU"
    return (
        f"GPU and CPU (CUDA {loaded.cuda}, for compute capability "
        f"{gpu.as_text(gpu.COMPUTE_CAPABILITY)} and later; needs NVIDIA driver "
        f"{loaded.minimum_driver} or later)"
    )


def _inside_xla() -> str:
    """Describes what runs inside `jit_compile=True`."""
    if not dispatch.has_xla_kernels():
        return _COMPOSED
    return f"the custom ops run on CPUs; elsewhere {_COMPOSED}"


def build_info() -> dict[str, str]:
    """Versions built against and found, and which kernels are loaded.

    Returns:
        A dictionary of strings, in an order fit to print:

        - `tf_opt`, `tensorflow`, `keras`: the versions found.
        - `wheel`: whether this is the wheel with kernels for GPUs, and if so
          the CUDA it was built with and the driver it needs.
        - `libraries`: the TensorFlow minors that it has a library for.
        - `built_against`: the TensorFlow that the one for the TensorFlow found
          was compiled against.
        - `custom_ops`: `"loaded"`, or why they are not.
        - `cpu_kernels`: the instruction set chosen at run time (`baseline`,
          `avx2` or `avx512`).
        - `xla`: what runs inside `jit_compile=True`.
        - `cuda_kernels`: `"loaded"`, or why they are not used. Then the
          composed implementation runs on a GPU.
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
        "wheel": _wheel(loaded),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "libraries": "for TensorFlow " + (", ".join(loaded.minors) or "none"),
        "built_against": loaded.built_against or "none for this TensorFlow",
        "custom_ops": loaded.problem or "loaded",
        "cpu_kernels": loaded.cpu_target or f"none: {_COMPOSED}",
        "xla": _inside_xla(),
        "cuda_kernels": (f"unused: {gpu_problem}" if gpu_problem else "loaded"),
        "gpus": ", ".join(gpu.names()) or "none found",
    }
