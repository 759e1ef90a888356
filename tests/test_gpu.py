"""On a GPU, if there is one; the tests of the registry then run there too."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels
from tf_opt.python.ops.calls import measure_gradients

from devices import needs_gpu
from registry import OPTIMIZERS, ROW_WISE_MODES, RULES, THOROUGH_MODES
from small_model import assert_close, fit

pytestmark = needs_gpu


def trained_model(name: str, mode: str, **arguments: Any) -> keras.Model:
    under_test = OPTIMIZERS[name]
    optimizer = under_test.make(0.01, **under_test.modes[mode])
    return fit(optimizer, **arguments)


def assert_as_on_cpu(model: keras.Model, name: str, mode: str) -> None:
    with tf.device("CPU:0"):
        expected = trained_model(name, mode, jit_compile=False)
    assert_close(model.variables, expected.variables, rtol=1e-3, atol=1e-4)


thorough_modes = pytest.mark.parametrize(("name", "mode"), THOROUGH_MODES)


# jit_compile="auto": on a single GPU that turns XLA on.
@pytest.mark.parametrize("jit_compile", ["auto", False])
@thorough_modes
def test_fit(name, mode, jit_compile):
    model = trained_model(name, mode, jit_compile=jit_compile)
    if not jit_compile:
        assert model.optimizer.implementation_in_use == "custom_op"
    assert all("GPU" in v.value.device for v in model.trainable_variables)
    assert all("GPU" in v.value.device for v in model.optimizer.variables[2:])
    assert_as_on_cpu(model, name, mode)


@thorough_modes
def test_mirrored_strategy_over_all_gpus(name, mode):
    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = trained_model(name, mode)
    assert strategy.num_replicas_in_sync == len(
        tf.config.list_logical_devices("GPU")
    )
    for variable in (*model.variables, *model.optimizer.variables):
        first, *others = strategy.experimental_local_results(variable.value)
        for other in others:
            np.testing.assert_array_equal(first.numpy(), other.numpy())
    assert_as_on_cpu(model, name, mode)


def host_inputs(operation: tf.Operation) -> Iterator[tf.Tensor]:
    """What its kernel for GPUs takes from the host's memory."""
    found = kernels.get_registered_kernels_for_op(operation.type).kernel
    candidates = [
        kernel
        for kernel in found
        if kernel.device_type in ("GPU", "DEFAULT")
        and all(
            operation.get_attr(c.name).as_datatype_enum
            in c.allowed_values.list.type
            for c in kernel.constraint
            if c.allowed_values.list.type
        )
    ]
    assert candidates, f"{operation.type} has no kernel for GPUs"
    # One for GPUs comes before one for any device.
    kernel = max(candidates, key=lambda k: k.device_type == "GPU")
    inputs = iter(operation.inputs)
    for argument in operation.op_def.input_arg:
        many = argument.number_attr
        count = operation.get_attr(many) if many else 1
        for tensor in itertools.islice(inputs, count):
            if argument.name in kernel.host_memory_arg:
                yield tensor


def assert_takes_nothing_back(step: Callable, *arguments: tf.Tensor) -> None:
    graph = tf.function(step).get_concrete_function(*arguments).graph
    for operation in graph.get_operations():
        for tensor in host_inputs(operation):
            # TensorFlow has handles and int32 on the host anyway.
            is_there = tensor.dtype in (tf.resource, tf.int32) or (
                tensor.op.type == "Const" and "CPU" in tensor.device
            )
            assert is_there, f"{operation.type} waits for {tensor.name}"


# ---- Tables, beside a variable with a dense gradient. ----

MODES = [*THOROUGH_MODES, *ROW_WISE_MODES]
TABLES = pytest.mark.parametrize(
    ("name", "mode", "lazy_mode"),
    [
        # The host asks whether a rule's averages are swapped in.
        *((x, mode, False) for x, mode in MODES if OPTIMIZERS[x].has_lazy_mode),
        *((x, mode, True) for x, mode in MODES if OPTIMIZERS[x].has_lazy_mode),
        *((x, "plain", "catch_up") for x in RULES if RULES[x].spec.coasts),
    ],
)


def trained(
    name: str, mode: str, lazy_mode: bool | str, dtype: str, **options: Any
) -> tuple[list[keras.Variable], Callable, list[tuple[tf.Tensor, ...]]]:
    """Variables with their state, a step that looks rows up, and batches."""
    random = np.random.default_rng(3)
    tables = [
        keras.Variable(
            random.normal(size=(rows, width)), dtype=dtype, name=name
        )
        for name, rows, width, dtype in (
            ("a", 40, 6, "float32"),
            ("b", 9, 64, dtype),
        )
    ]
    if lazy_mode:
        options["lazy_mode"] = {"^[ab]$": lazy_mode}
    arguments = {**OPTIMIZERS[name].modes[mode], **options}
    optimizer = OPTIMIZERS[name].make(
        0.125, implementation="custom_op", **arguments
    )
    variables = [*tables, keras.Variable([1.0, 2.0], name="c")]
    optimizer.build(variables)

    def step(rows: tf.Tensor, *values: tf.Tensor) -> None:
        optimizer.catch_up(tables, [rows, rows])
        slices = [tf.IndexedSlices(x, rows) for x in values]
        optimizer.apply([*slices, tf.ones(2)], variables)

    batches = []
    for _ in range(5):
        # Most rows occur several times.
        rows = tf.constant(random.integers(0, 9, 30))
        # Every type has these, so that no device rounds them.
        values = [
            np.rint(8 * random.normal(size=(30, x.shape[1]))) / 8
            for x in tables
        ]
        types = [x.dtype for x in tables]
        batches.append((rows, *map(tf.constant, values, types)))
    return [*variables, *optimizer.variables], step, batches


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@TABLES
def test_tables_get_the_bits_of_the_cpu(name, mode, lazy_mode, dtype):
    found = []
    for device in ("CPU:0", "GPU:0"):
        with tf.device(device):
            variables, step, batches = trained(name, mode, lazy_mode, dtype)
            assert device in variables[0].value.device
            step = tf.function(step)
            for batch in batches:
                step(*batch)
        found.append([x.numpy().tobytes() for x in variables])
    assert found[0] == found[1]


@TABLES
def test_a_step_takes_nothing_back_to_the_host(name, mode, lazy_mode):
    for options in ({}, {"global_clipnorm": 1.0}):
        arguments = name, mode, lazy_mode, "bfloat16"
        _, step, batches = trained(*arguments, **options)
        assert_takes_nothing_back(step, *batches[0])


def test_measuring_takes_nothing_back_to_the_host():
    accumulator = tf.Variable([1.0, 2.0])
    measure = tf.function(
        lambda gradient, scale, enabled: measure_gradients(
            [gradient], [accumulator], gradient_scale=scale, enabled=enabled
        )
    )
    given = tf.ones(2), tf.constant(1.0, tf.float64), tf.constant(value=True)
    graph = measure.get_concrete_function(*given).graph
    (operation,) = (
        x for x in graph.get_operations() if x.type == "TfOpt>MeasureGradients"
    )
    assert [x.dtype for x in host_inputs(operation)] == [tf.resource]
    measures = measure(*given)
    assert "GPU" in measures.sums_of_squares.device
    assert measures.sums_of_squares.numpy().tolist() == [13]
