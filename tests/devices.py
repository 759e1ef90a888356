"""The devices that tests run on, and what is different there."""

import os
from collections.abc import Callable

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


def assert_refused(
    step: Callable[[], None],
    device: str,
    message: str,
    *,
    is_of_a_number: bool = True,
    table: str = "",
    next_step: Callable[[], None] | None = None,
) -> None:
    """Asserts that an op refuses its arguments, here with a message like this.

    A kernel of a GPU sees the numbers and rows of a step only on the device.
    After a wrong one the step of the same op that is next raises the error, and
    writes nothing. If that isn't `step` again, it is `next_step`.
    """
    if table:
        message = message.replace("` must", rf"` \(of {table}\) must")
    if is_of_a_number and (EMULATED_GPU or device.startswith("GPU")):
        step()
        if device.startswith("GPU"):
            tf.test.experimental.sync_devices()
        step = next_step or step
        message += ".*, in an earlier step on this GPU"
    with pytest.raises(
        (
            ValueError,
            tf.errors.InvalidArgumentError,
            tf.errors.FailedPreconditionError,
        ),
        match=message,
    ):
        step()
