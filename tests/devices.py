"""The devices that tests run on, and what is different there."""

import contextlib
import os
import re
from collections.abc import Callable, Iterator

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
# Whether the kernels of the device that TensorFlow chooses are a GPU's.
GPU_KERNELS = EMULATED_GPU or bool(GPUS)


@contextlib.contextmanager
def refusal(
    device: str,
    message: str,
    capfd: pytest.CaptureFixture[str],
    *,
    is_of_a_number: bool,
    table: str = "",
    next_step: Callable[[], None] | None = None,
) -> Iterator[None]:
    """Expects that a kernel refuses its arguments with a message like this.

    A kernel of a GPU sees the numbers of a step only on the device: a wrong one
    can't become an exception. Then the device prints what is wrong, which
    `capfd` captures, and writes nothing. After a wrong row of a `table`,
    `next_step` raises the exception and writes nothing.
    """
    named = message
    if table:
        named = message.replace("` must", rf"` \(of {table}\) must")
    if is_of_a_number and (EMULATED_GPU or device.startswith("GPU")):
        yield
        if device.startswith("GPU"):
            tf.test.experimental.sync_devices()
        printed = capfd.readouterr().out
        assert re.search(message, printed), printed
        if next_step is not None:
            named += ".*, in an earlier step on this GPU"
            with pytest.raises(tf.errors.InvalidArgumentError, match=named):
                next_step()
        return
    with pytest.raises(
        (
            ValueError,
            tf.errors.InvalidArgumentError,
            tf.errors.FailedPreconditionError,
        ),
        match=named,
    ):
        yield
