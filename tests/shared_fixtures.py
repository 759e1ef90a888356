"""What every test needs before TensorFlow starts, and what they share."""

from collections.abc import Iterator

# Both bring an OpenMP runtime; in the other order PyTorch's import can crash.
try:
    import torch  # noqa: F401
except ImportError:
    pass

import keras
import pytest
import tensorflow as tf

# Must be set before TensorFlow initialises; the tests of distribution need two
# devices, the others run on the first.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)

from devices import DEVICES


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs a test on the CPU and, where there is one, on a GPU."""
    with tf.device(request.param):
        yield request.param


@pytest.fixture(params=["custom_op", "composed"])
def implementation(request: pytest.FixtureRequest) -> str:
    """Runs a test that doesn't say otherwise with both."""
    return request.param


@pytest.fixture(params=["eager", "tf.function"])
def how(request: pytest.FixtureRequest) -> str:
    """Runs a test that doesn't say otherwise in two ways of `RUNS`."""
    return request.param


@pytest.fixture(autouse=True)
def seeds() -> None:
    """The same random numbers in each test, whatever ran before it."""
    keras.utils.set_random_seed(20)


@pytest.fixture(scope="session")
def strategy() -> tf.distribute.Strategy:
    """Two replicas on the logical CPUs.

    One for all tests: the collectives of two strategies in a process get mixed
    up.
    """
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
