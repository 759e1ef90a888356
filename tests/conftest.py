"""What every test needs before TensorFlow starts, and what they share."""

from __future__ import annotations

import gc
import os
import pathlib
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

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

import tf_opt

from devices import DEVICES


def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers and checks what is under test."""
    config.addinivalue_line(
        "markers",
        "core: what meets Keras; it also runs on older Kerases",
    )
    config.addinivalue_line(
        "markers",
        "kernels: it also runs on other builds and other TensorFlows",
    )
    config.addinivalue_line(
        "markers",
        "slow: left out of `make test`, as quicker tests meet the same code",
    )
    source = pathlib.Path(__file__).parents[1] / "tf_opt"
    imported = pathlib.Path(tf_opt.__file__).parent
    if imported.resolve() == source.resolve():
        raise pytest.UsageError(
            "The tests are for the installed wheel, but `import tf_opt` found "
            f"the source tree, {source}, which has no compiled ops. Run "
            "`make test`, or run `pytest` (not `python -m pytest`) where the "
            "wheel is installed."
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with slow tests, so that no process waits for one at the end."""
    items.sort(key=lambda item: "slow" not in item.keywords)


def pytest_collection_finish() -> None:
    """Leaves modules and tests out of what Python searches for garbage."""
    gc.collect()
    gc.freeze()


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
