"""What is installed and which kernels run."""

from __future__ import annotations

import keras
import tensorflow as tf

from tf_opt.python.ops import library
from tf_opt.version import __version__


def build_info() -> dict[str, str]:
    """Versions built against and found, and which kernels are loaded.

    Returns:
        A dictionary of strings, in an order fit to print:

        - `tf_opt`, `tensorflow`, `keras`: the versions found.
        - `built_against`: the TensorFlow that the library was compiled
          against.
        - `custom_ops`: `"loaded"`, or why they are not.
        - `cpu_kernels`: the instruction set chosen at run time (`baseline`,
          `avx2` or `avx512`).
        - `xla`: what runs inside `jit_compile=True`.
        - `cuda_kernels`: what runs on a GPU.

    Example:

    >>> import tf_opt
    >>> tf_opt.build_info()["tf_opt"] == tf_opt.__version__
    True
    """
    loaded = library.library()
    none = "none: the composed implementation runs"
    return {
        "tf_opt": __version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "built_against": loaded.built_against or "no library was built",
        "custom_ops": loaded.problem or "loaded",
        "cpu_kernels": loaded.cpu_target or none,
        "xla": "the composed implementation runs",
        "cuda_kernels": none,
    }
