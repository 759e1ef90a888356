"""Inside tf.function: order, control flow, retracing, number of ops, XLA."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from op_cases import OPS
from registry import quick_first
from registry import slow
from small_model import assert_close
from small_model import assert_same
from small_model import multi
from trajectory import RUNS

OP = "TfOpt>ResourceApplyAdamAmsgrad"


def make() -> tuple[keras.Variable, keras.optimizers.Optimizer, tf.Tensor]:
    variable = keras.Variable([1.0, 2.0])
    optimizer = tf_opt.Adam(0.1)
    optimizer.build([variable])
    return variable, optimizer, tf.constant([0.5, -0.5])


def first_moment(optimizer) -> keras.Variable:
    return optimizer.variables[2]


@pytest.mark.core
def test_what_is_read_in_the_same_function_is_read_in_order():
    variable, optimizer, gradient = make()
    m = first_moment(optimizer)

    def read() -> tf.Tensor:
        # Computed with, so that what is returned isn't a variable's buffer.
        return tf.stack([m.value * 1.0, variable.value * 1.0])

    @tf.function
    def step():
        before = read()
        optimizer.apply([gradient], [variable])
        between = read()
        m.assign(between[0] * 10.0)
        variable.assign(between[1] + 1.0)
        optimizer.apply([gradient], [variable])
        return before, between, read()

    before, between, after = (x.numpy()[:, 0] for x in step())
    np.testing.assert_array_equal(before, [0, 1])
    np.testing.assert_allclose(between, [0.05, 0.9], rtol=1e-6)
    moment = 0.9 * 0.5 + 0.05
    # The second moment has no bias to correct: its gradients are equal.
    step_size = 0.1 * moment / (1 - 0.9**2) / 0.5
    np.testing.assert_allclose(after, [moment, 1.9 - step_size], rtol=1e-6)


def test_steps_in_nested_functions_and_loops_are_in_order():
    variable, optimizer, gradient = make()
    m = first_moment(optimizer)

    @tf.function
    def inner() -> None:
        optimizer.apply([gradient], [variable])

    @tf.function
    def outer():
        inner()
        once = m.value * 1.0
        for _ in tf.range(3):
            inner()
        looped = m.value * 1.0
        if tf.reduce_sum(looped) > -1e9:
            inner()
        return once, looped, m.value * 1.0

    moments = 0.5 * (1 - 0.9 ** np.array([1, 4, 5]))
    found = [x.numpy()[0] for x in outer()]
    np.testing.assert_allclose(found, moments, rtol=1e-6)


def test_variables_that_are_arguments_of_a_function():
    variable, optimizer, gradient = make()
    tf_variable = variable.value
    optimizer.apply([gradient], [tf_variable])

    @tf.function
    def step(argument):
        optimizer.apply([gradient], [argument])
        between = argument * 1.0
        optimizer.apply([gradient], [argument])
        return between, argument * 1.0

    between, after = step(tf_variable)
    np.testing.assert_allclose(between.numpy(), [0.8, 2.2], atol=1e-6)
    np.testing.assert_allclose(after.numpy(), [0.7, 2.3], atol=1e-6)


@pytest.mark.core
def test_the_second_call_does_not_retrace():
    variable, optimizer, _ = make()
    traces = []

    @tf.function
    def step(gradient) -> None:
        traces.append(1)
        optimizer.apply([gradient], [variable])

    for i in range(5):
        step(tf.constant([0.5, 0.1 * i]))
        optimizer.learning_rate = 0.1 / (i + 1)
    assert len(traces) == 1


NAMES_BUILD = r"call `optimizer\.build\(variables\)` before"


@pytest.mark.parametrize(
    "wrap", [lambda x: x, tf_opt.LossScaleOptimizer, multi]
)
def test_an_optimizer_that_is_built_in_a_later_trace_is_an_error(wrap):
    optimizers = [wrap(tf_opt.Adam(0.1)) for _ in range(3)]
    # A MultiOptimizer takes no TensorFlow variable.
    variable = keras.Variable([1.0])

    @tf.function
    def step(number):
        optimizers[number].apply([tf.ones(1)], [variable])

    step(0)
    with pytest.raises(ValueError, match=NAMES_BUILD):
        step(1)
    optimizers[2].build([variable])
    step(2)


def test_an_optimizer_that_every_trace_creates_is_an_error():
    @tf.function
    def step(variable):
        tf_opt.Adam(0.1).apply([tf.ones(1)], [variable])

    # TensorFlow traces a function that creates variables twice.
    with pytest.raises(ValueError, match=NAMES_BUILD):
        step(tf.Variable([1.0]))


def test_a_graph_of_tensorflow_1_trains():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.Variable([1.0, 2.0])
        slots = [tf.Variable([0.0, 0.0]) for _ in range(2)]
        OPS["adam"].apply(
            variables=[variable],
            m=[slots[0]],
            v=[slots[1]],
            gradients=[tf.constant([0.5, -0.5])],
            step=1,
            learning_rate=0.1,
        )
        (step,) = [
            op
            for op in tf.compat.v1.get_default_graph().get_operations()
            if op.type == OP
        ]
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(step)
        np.testing.assert_allclose(session.run(variable), [0.9, 2.1], atol=1e-6)


@pytest.mark.parametrize(
    ("cls", "sparse"), [(tf_opt.Adam, True), (tf_opt.AveragedSGD, False)]
)
def test_checked_numerics_find_the_models_infinities_only(cls, sparse):
    variable = keras.Variable([[1.0], [2.0]])
    optimizer = cls(0.1)
    optimizer.build([variable])

    def step(gradient: tf.Tensor) -> None:
        gradient = gradient * 2.0
        if sparse:
            gradient = tf.IndexedSlices(gradient, tf.constant([0, 1]))
        optimizer.apply([gradient], [variable])

    tf.debugging.enable_check_numerics()
    try:
        step = tf.function(step)
        step(tf.ones([2, 1]))
        assert int(optimizer.iterations) == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="Infinity"):
            step(tf.constant([[1.0], [float("inf")]]))
    finally:
        tf.debugging.disable_check_numerics()


def ops_for_each_variable(make) -> float:
    """How many each variable adds to a traced step."""

    def ops(count: int) -> int:
        variables = [tf.Variable(tf.zeros([3])) for _ in range(count)]
        optimizer = make()
        optimizer.build(variables)
        gradients = [tf.ones([3])] * count
        step = tf.function(lambda: optimizer.apply(gradients, variables))
        graph = step.get_concrete_function().graph
        return len(graph.get_operations())

    return (ops(8) - ops(4)) / 4


def test_adam_is_fewer_ops_than_keras():
    ours = ops_for_each_variable(
        lambda: tf_opt.AdamW(implementation="composed")
    )
    kerass = ops_for_each_variable(keras.optimizers.AdamW)
    assert ours <= 0.6 * kerass


# ---- Inside XLA. ----

XLA = tf.function(jit_compile=True)


def numbers(optimizer, variables):
    return [x.numpy() for x in (*variables, *optimizer.variables)]


@pytest.mark.parametrize("what", ["variables", "slots", "each other's"])
def test_a_gradient_may_be_what_is_updated(what):
    def train(way):
        a, b = keras.Variable([1.0, -2.0]), keras.Variable([3.0, 0.5])
        optimizer = tf_opt.Adam(0.1)
        optimizer.build([a, b])
        given = {
            "variables": [a, b],
            "slots": optimizer.variables[3:1:-1],
            "each other's": [b, a],
        }[what]

        @way
        def step():
            optimizer.apply([x.value for x in given], [a, b])
            return a + b

        results = [step().numpy() for _ in range(3)]
        return [*results, *numbers(optimizer, [a, b])]

    assert_close(train(XLA), train(tf.function), rtol=1e-5)


@pytest.mark.parametrize(
    "lazy_mode",
    [
        False,
        True,
        slow({"table": "catch_up"}),
    ],
)
def test_rows_that_a_table_does_not_have_are_ignored(lazy_mode):
    def train(values, rows):
        table = keras.Variable(np.ones((5, 2)), name="table")
        optimizer = tf_opt.Adam(0.1, lazy_mode=lazy_mode)
        optimizer.build([table])

        @XLA
        def step(values: tf.Tensor, rows: tf.Tensor) -> None:
            optimizer.apply([tf.IndexedSlices(values, rows)], [table])

        for _ in range(2):
            step(tf.constant(values, shape=(len(rows), 2)), tf.constant(rows))
        return numbers(optimizer, [table])

    found = train([1.0, 2.0, 5.0, 6.0, 3.0, 4.0, 7.0, 8.0], [1, 9, 4, -1])
    assert_close(found, train([1.0, 2.0, 3.0, 4.0], [1, 4]), rtol=1e-6)


COMPARING = {
    "accumulates": lambda: tf_opt.Adam(0.1, gradient_accumulation_steps=2),
    "averages": lambda: tf_opt.Adam(
        0.1, use_ema=True, ema_overwrite_frequency=2
    ),
    "AveragedSGD": lambda: tf_opt.AveragedSGD(0.1, t0=1),
    "ASGD": lambda: tf_opt.ASGD(0.1, batch_num=2),
    "Lion": lambda: tf_opt.Lion(0.1, lazy_mode={"table": "catch_up"}),
    "lazy": lambda: tf_opt.SGD(
        0.1, momentum=0.5, lazy_mode=True, gradient_accumulation_steps=2
    ),
    "scales": lambda: tf_opt.LossScaleOptimizer(
        tf_opt.Adam(0.1), 4.0, dynamic_growth_steps=2
    ),
}


@pytest.mark.parametrize(
    ("name", "implementation", "how"),
    # Traced, all code of a step runs; eagerly it is the same.
    quick_first(
        (name, implementation, how)
        for how in ("tf.function", "eager")
        for implementation in ("custom_op", "composed")
        for name in COMPARING
    ),
)
def test_no_tensors_are_compared_by_python(name, implementation, how):
    """TensorFlow 1's `==`, which is still an option, compares identities."""

    def train() -> list[np.ndarray]:
        optimizer = COMPARING[name]()
        optimizer.implementation = implementation
        table = keras.Variable(np.ones((4, 2)), name="table")
        variables = [table, keras.Variable([1.0, 2.0])]
        optimizer.build(variables)
        slices = tf.IndexedSlices(tf.ones([3, 2]), tf.constant([2, 0, 2]))

        def apply() -> None:
            optimizer.apply([slices, tf.constant([2.0, -1.0])], variables)

        step = RUNS[how](apply)
        for _ in range(5):
            step()
        return [x.numpy() for x in (*variables, *optimizer.variables)]

    tf.compat.v1.disable_tensor_equality()
    try:
        received = train()
    finally:
        tf.compat.v1.enable_tensor_equality()
    assert_same(received, train())
