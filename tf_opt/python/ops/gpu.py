"""Check whether the kernels for GPUs can run on this machine."""

from __future__ import annotations

import ctypes
import functools

import tensorflow as tf

from tf_opt.python.ops import library

# The lowest compute capability that the kernels are compiled for; see
# tf_opt/cc/engines/gpu/architectures.options.
COMPUTE_CAPABILITY = (8, 0)


def as_text(capability: tuple[int, int]) -> str:
    """Formats a compute capability as NVIDIA does."""
    return ".".join(map(str, capability))


def _details(gpu: tf.config.PhysicalDevice) -> dict:
    return tf.config.experimental.get_device_details(gpu)


def names() -> list[str]:
    """Returns the names of the GPUs that TensorFlow found."""
    gpus = tf.config.list_physical_devices("GPU")
    return [_details(gpu).get("device_name", gpu.name) for gpu in gpus]


@functools.lru_cache(maxsize=1)
def problem() -> str | None:
    """Returns why the kernels can't run on this machine's GPUs, or None."""
    loaded = library.library()
    if loaded.handle is None:
        return "the library is not loaded"
    if loaded.cuda is None:
        return "this is the wheel without kernels for GPUs"
    if not tf.test.is_built_with_cuda():
        return "this TensorFlow is built without CUDA"
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return "TensorFlow found no GPU"
    loaded.handle.TfOptCudaDriverProblem.restype = ctypes.c_char_p
    driver_problem = loaded.handle.TfOptCudaDriverProblem()
    if driver_problem is not None:
        return (
            f"{driver_problem.decode()} (needed: driver "
            f"{loaded.minimum_driver} or later)"
        )
    for gpu in gpus:
        capability = _details(gpu).get("compute_capability", (0, 0))
        if tuple(capability) < COMPUTE_CAPABILITY:
            return (
                f"{gpu.name} has compute capability "
                f"{as_text(capability)}, but the kernels are for "
                f"{as_text(COMPUTE_CAPABILITY)} and later"
            )
    return None
