"""What only SGD has: momentum in two forms, or none, and then no slot."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt


def test_slices_of_another_type_are_summed_before_they_are_rounded():
    values = np.array([[1 + 2.0**-9], [-1]], "float32")
    gradient = tf.IndexedSlices(tf.constant(values), [1, 1], (3, 1))
    results = []
    for each in (gradient, tf.convert_to_tensor(gradient)):
        table = keras.Variable(np.zeros((3, 1)), dtype="bfloat16")
        tf_opt.SGD(1.0).apply([each], [table])
        results.append(table.numpy())
    np.testing.assert_array_equal(*results)


def test_a_keras_optimizer_whose_momentum_was_taken_away_is_refused():
    optimizer = keras.optimizers.SGD(0.5, momentum=0.5)
    optimizer.build([keras.Variable([1.0])])
    optimizer.momentum = 0.0
    with pytest.raises(ValueError, match="`momentum`.* 3 variables, expected"):
        tf_opt.from_keras(optimizer)


@pytest.mark.parametrize(
    "arguments",
    [
        {"dampening": 0.5},
        {"dampening": 0.5, "momentum": 0.5},
        {"dampening": 0.5, "torch_momentum": True, "nesterov": True},
    ],
    ids=str,
)
def test_dampening_belongs_to_the_momentum_of_pytorch(arguments):
    with pytest.raises(ValueError, match="`dampening` must be 0 unless"):
        tf_opt.SGD(**arguments)
    optimizer = tf_opt.SGD(dampening=0.5, torch_momentum=True)
    for name, value in (("nesterov", True), ("torch_momentum", False)):
        with pytest.raises(ValueError, match="`dampening` must be 0 unless"):
            setattr(optimizer, name, value)


@pytest.mark.parametrize("make", [float, np.float32, tf.constant, tf.Variable])
def test_momentum_needs_a_velocity(make):
    p, g, momentum = tf.Variable([1.0]), tf.constant([1.0]), make(0.5)
    with pytest.raises(ValueError, match="`velocity` must be given unless"):
        tf_opt.functional.sgd(p, g, step=1, momentum=momentum)


@pytest.mark.parametrize("momentum", [0.5, [0.5] * 3])
def test_unroll_keeps_a_velocity(momentum):
    momentum = tf.constant(momentum, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(momentum)
        end = tf_opt.functional.unroll(
            tf_opt.functional.sgd,
            lambda x, i: x,
            tf.constant(0.0, tf.float64),
            3,
            learning_rate=1.0,
            momentum=momentum,
        )
    # Velocities of -1, -1.5 and -1.75.
    assert float(end.variables) == -4.25
    assert tape.gradient(end.variables, momentum) is not None


def test_infinite_gradients_are_no_nans():
    for momentum, nesterov in ((0.0, False), (0.5, False), (0.5, True)):
        variable = keras.Variable([1.0])
        optimizer = tf_opt.SGD(0.5, momentum, nesterov)
        optimizer.apply([tf.constant([np.inf])], [variable])
        assert variable.numpy().tolist() == [-np.inf]
