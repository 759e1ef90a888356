"""Check whether the kernels for GPUs can run on this machine."""

from __future__ import annotations

import concurrent.futures
import ctypes
import functools

import tensorflow as tf

from tf_opt.python.ops import library

# The lowest that the kernels are compiled for; see
# tf_opt/cc/engines/gpu/architectures.options.
COMPUTE_CAPABILITY = "7.5"


def _visible() -> list[tf.config.PhysicalDevice]:
    return tf.config.get_visible_devices("GPU")


def _name(gpu: tf.config.PhysicalDevice) -> str:
    details = tf.config.experimental.get_device_details(gpu)
    return details.get("device_name", gpu.name)


def names() -> list[str]:
    """Returns the names of the GPUs that TensorFlow uses."""
    return [_name(gpu) for gpu in _visible()]


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
    if not _visible():
        return "TensorFlow found no GPU"
    ask = loaded.handle.TfOptGpuProblem
    ask.restype = ctypes.c_char_p
    for gpu in _visible():
        number = int(gpu.name.rpartition(":")[2])
        # The question changes its thread's device.
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            found = thread.submit(ask, number).result()
        if found is not None:
            return (
                f"they can't run on {_name(gpu)}: {found.decode()}; needed are "
                f"compute capability {COMPUTE_CAPABILITY} and driver "
                f"{loaded.minimum_driver}, or later"
            )
    return None
