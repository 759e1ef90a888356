"""Inside tf.function: order, control flow, retracing, number of ops."""

from __future__ import annotations

import collections
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tensorflow.python.autograph.impl import api

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


def test_slots_are_in_order_with_steps_in_nested_functions_and_loops():
    variable, optimizer, gradient = make()
    m = first_moment(optimizer)

    @tf.function
    def inner() -> None:
        optimizer.apply([gradient], [variable])

    @tf.function
    def outer():
        before = m.value * 1.0
        inner()
        once = m.value * 1.0
        for _ in tf.range(3):
            inner()
        looped = m.value * 1.0
        if tf.reduce_sum(looped) > -1e9:
            inner()
        return before, once, looped, m.value * 1.0

    expected, m_expected = [0.0], 0.0
    for steps in (1, 3, 1):
        for _ in range(steps):
            m_expected = 0.9 * m_expected + 0.05
        expected.append(m_expected)
    np.testing.assert_allclose(
        [x.numpy()[0] for x in outer()], expected, rtol=1e-6
    )


def test_gradients_of_many_shapes_keep_their_shapes_in_the_graph():
    # Graph optimization folds the shapes that shape inference finds.
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.layers.Input((8, 8, 1)),
            keras.layers.Conv2D(4, 3),
            keras.layers.Conv2D(6, 3),
            keras.layers.Flatten(),
            keras.layers.Dense(3),
        ]
    )
    model.compile(tf_opt.Adam(), "mse", jit_compile=False)
    x = np.random.default_rng(0).standard_normal((8, 8, 8, 1))
    history = model.fit(x, np.ones((8, 3)), epochs=3, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]


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


def test_one_launch_for_each_type():
    types = ["float32"] * 5 + ["bfloat16"] * 4 + ["float64"]
    variables = [keras.Variable([1.0], dtype=t) for t in types]
    optimizer = tf_opt.Adam(0.1)
    optimizer.build(variables)

    @tf.function
    def step() -> None:
        optimizer.apply([tf.ones_like(v.value) for v in variables], variables)

    graph = step.get_concrete_function().graph
    launches = [op for op in graph.get_operations() if op.type == OP]
    assert sorted(op.get_attr("N") for op in launches) == [1, 4, 5]


@pytest.mark.core
def test_tensorflow_sees_every_variable_and_every_slot():
    variables = [keras.Variable([1.0]) for _ in range(3)]
    optimizer = tf_opt.Adam(0.1)

    @tf.function
    def step() -> None:
        optimizer.apply([tf.ones(1)] * 3, variables)

    # Also after an eager step, which keeps something of its own.
    optimizer.apply([tf.ones(1)] * 3, variables)
    graph = step.get_concrete_function().graph
    captured = {id(handle) for handle in graph.external_captures}
    expected = [*variables, *optimizer.variables]
    assert captured == {id(variable.value.handle) for variable in expected}


def test_a_graph_of_tensorflow_1_trains():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.Variable([1.0, 2.0])
        slots = [tf.Variable([0.0, 0.0]) for _ in range(2)]
        tf_opt.ops.resource_apply_adam_amsgrad(
            [variable],
            [slots[0]],
            [slots[1]],
            [tf.constant([0.5, -0.5])],
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


def test_autograph_leaves_the_package_alone():
    variable, slot = tf.Variable([1.0]), tf.Variable([0.0])
    optimizer = tf_opt.Adam(0.1)
    optimizer.build([variable])
    converted = []

    def helper() -> None:
        tf_opt.ops.resource_apply_averaged_sgd(
            [variable], [slot], [tf.ones(1)], step=1, eta=0.1
        )

    @tf.function
    def step():
        helper()
        optimizer.apply([tf.ones(1)], [variable])
        tf_opt.functional.asgd(
            tf.ones(1), tf.ones(1), tf.zeros(1), tf.zeros(1), seen_batches=1
        )

    convert = api._convert_actual

    def note(function, *arguments, **more):
        converted.append(function.__module__)
        return convert(function, *arguments, **more)

    with mock.patch.object(api, "_convert_actual", note):
        step()
    # The test's own helper, and nothing else.
    assert set(converted) == {__name__}


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


# What hands over a variable and its slots, and no implementation is without.
HANDLES = {"Placeholder", "ReadVariableOp", "AssignVariableOp"}


def ops_for_each_variable(make) -> collections.Counter:
    """What each variable adds to a traced step."""

    def types(count):
        variables = [tf.Variable(tf.zeros([3])) for _ in range(count)]
        optimizer = make()
        optimizer.build(variables)
        gradients = [tf.ones([3])] * count
        step = tf.function(lambda: optimizer.apply(gradients, variables))
        graph = step.get_concrete_function().graph
        return collections.Counter(op.type for op in graph.get_operations())

    more = types(8) - types(4)
    return collections.Counter({type_: n / 4 for type_, n in more.items()})


@pytest.mark.parametrize(
    ("name", "modes", "limit"),
    [
        ("Adam", {}, 13),
        ("AdamW", {}, 14),
        ("AdamW", {"amsgrad": True, "weight_decay": 0.1}, 16),
        ("NAdam", {}, 15),
        ("ASGD", {}, 26),
        ("AveragedSGD", {}, 13),
    ],
)
def test_a_variable_takes_few_ops(name, modes, limit):
    found = ops_for_each_variable(
        lambda: getattr(tf_opt, name)(implementation="composed", **modes)
    )
    computed = {t: n for t, n in found.items() if t not in HANDLES}
    assert sum(computed.values()) <= limit, computed
    # What is a step's, not a variable's, is rounded once.
    assert "Cast" not in computed


def test_adam_is_fewer_ops_than_keras():
    ours = ops_for_each_variable(
        lambda: tf_opt.AdamW(implementation="composed")
    )
    kerass = ops_for_each_variable(keras.optimizers.AdamW)
    assert ours.total() <= 0.6 * kerass.total()
