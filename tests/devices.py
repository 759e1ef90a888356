"""The devices that tests run on, and what is different there."""

import contextlib
import os
import re
from collections.abc import Iterator

import pytest
import tensorflow as tf
import tf_opt

KERNELS_ON_GPU = tf_opt.build_info()["cuda_kernels"]
if KERNELS_ON_GPU != "loaded":
    # The wheel without kernels for GPUs is tested on the CPU.
    tf.config.set_visible_devices([], "GPU")
GPUS = tf.config.get_visible_devices("GPU")
for _gpu in GPUS:
    # Several processes of tests share its memory.
    tf.config.experimental.set_memory_growth(_gpu, True)
# A product of matrices is that of a CPU then, up to float32's rounding.
tf.config.experimental.enable_tensor_float_32_execution(False)

DEVICES = ["CPU:0", *(["GPU:0"] if GPUS else [])]
needs_gpu = pytest.mark.skipif(
    not GPUS, reason=f"the kernels for GPUs are {KERNELS_ON_GPU}"
)

# Set by library_variants.sh: the CPU's kernels are the GPU's, emulated.
EMULATED_GPU = os.environ.get("TF_OPT_TEST_EMULATED_GPU") == "1"

# The custom ops for sparse gradients have kernels for CPUs only.
HAS_SPARSE_KERNELS = not (EMULATED_GPU or GPUS)
needs_sparse_kernels = pytest.mark.skipif(
    not HAS_SPARSE_KERNELS, reason="a GPU has no kernels for sparse gradients"
)
sparse_implementations = pytest.mark.parametrize(
    "implementation",
    [pytest.param("custom_op", marks=needs_sparse_kernels), "composed"],
)


@contextlib.contextmanager
def refusal(
    device: str,
    message: str,
    capfd: pytest.CaptureFixture[str],
    *,
    is_of_a_number: bool,
) -> Iterator[None]:
    """Expects that a kernel refuses its arguments with a message like this.

    A kernel of a GPU sees the numbers of a step only on the device: a wrong one
    can't become an exception. Then the device prints what is wrong, which
    `capfd` captures, and writes nothing.
    """
    if is_of_a_number and (EMULATED_GPU or device.startswith("GPU")):
        yield
        if device.startswith("GPU"):
            tf.test.experimental.sync_devices()
        printed = capfd.readouterr().out
        assert re.search(message, printed), printed
        return
    with pytest.raises(
        (
            ValueError,
            tf.errors.InvalidArgumentError,
            tf.errors.FailedPreconditionError,
        ),
        match=message,
    ):
        yield
