"""Inside tf.function: order, control flow, retracing, number of ops, XLA."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from op_cases import Launch
from registry import slow
from small_model import assert_close, assert_same, multi

OP = "TfOpt>ResourceApplyAdamAmsgrad"


def make() -> tuple[keras.Variable, keras.optimizers.Optimizer, tf.Tensor]:
    variable = keras.Variable([1.0, 2.0])
    optimizer = tf_opt.Adam(0.1)
    optimizer.build([variable])
    return variable, optimizer, tf.constant([0.5, -0.5])


@pytest.mark.core
def test_steps_and_reads_are_in_order_in_nested_functions_and_loops():
    variable, optimizer, gradient = make()
    m = optimizer.variables[2]  # The first moment.

    def read() -> tf.Tensor:
        # Computed with, so that what is returned isn't a variable's buffer.
        return tf.stack([m.value * 1.0, variable.value * 1.0])[:, 0]

    @tf.function
    def inner() -> None:
        optimizer.apply([gradient], [variable])

    @tf.function
    def outer():
        first = read()
        optimizer.apply([gradient], [variable])
        once = read()
        for _ in tf.range(3):
            inner()
        looped = read()
        if tf.reduce_sum(looped) > -1e9:
            inner()
        found = [first, once, looped, read()]
        m.assign(m * 10.0)
        variable.assign(variable + 1.0)
        optimizer.apply([gradient], [variable])
        return tf.stack([*found, read()])

    found = outer().numpy()
    # Equal gradients: each step is 0.1, but for the moment that is assigned.
    moments = 0.5 * (1 - 0.9 ** np.array([0, 1, 4, 5]))
    last = 9 * moments[-1] + 0.05
    step_size = 0.1 * last / (1 - 0.9**6) / 0.5
    expected = [*zip(moments, [1, 0.9, 0.6, 0.5], strict=True)]
    expected += [(last, 1.5 - step_size)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


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

    @tf.function
    def creating():
        wrap(tf_opt.Adam(0.1)).apply([tf.ones(1)], [variable])

    step(0)
    # TensorFlow traces a function that creates variables twice.
    for wrong in (lambda: step(1), creating):
        with pytest.raises(ValueError, match=r"call `optimizer\.build\(var"):
            wrong()
    optimizers[2].build([variable])
    step(2)


def test_a_graph_of_tensorflow_1_trains():
    expected = Launch("adam").apply()
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        launch = Launch("adam").apply()
        (step,) = [x for x in graph.get_operations() if x.type == OP]
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(step)
        found = session.run(launch.everything())
    assert_same(found, expected.everything())


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


def test_adam_is_fewer_ops_than_keras():
    def count(optimizer: keras.optimizers.Optimizer, variables: int) -> int:
        values = [tf.Variable(tf.zeros([3])) for _ in range(variables)]
        optimizer.build(values)
        gradients = [tf.ones([3])] * variables
        step = tf.function(lambda: optimizer.apply(gradients, values))
        return len(step.get_concrete_function().graph.get_operations())

    ours, theirs = (
        count(make(), 8) - count(make(), 4)
        for make in (
            lambda: tf_opt.AdamW(implementation="composed"),
            keras.optimizers.AdamW,
        )
    )
    assert ours <= 0.6 * theirs


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
    "lazy_mode", [False, True, slow({"table": "catch_up"})]
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
