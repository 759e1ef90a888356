"""Ftrl: TensorFlow's own op, other powers, and rates of zero."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from small_model import assert_close

ROWS, WIDTH = 40, 5
STRENGTHS = {
    "l1_regularization_strength": 0.25,
    "l2_regularization_strength": 0.125,
    "l2_shrinkage_regularization_strength": 0.25,
    "beta": 0.5,
}


def _table() -> keras.Variable:
    rng = np.random.default_rng(0)
    return keras.Variable(rng.normal(size=(ROWS, WIDTH)), dtype="float32")


def _train(optimizer: Any) -> np.ndarray:
    table = _table()
    for step in range(3):
        rng = np.random.default_rng(step)
        gradient = tf.constant(rng.normal(size=table.shape), "float32")
        optimizer.apply([gradient], [table])
    return table.numpy()


def test_lazy_rows_are_those_of_tensorflows_op(implementation):
    table = _table()
    expected = [
        tf.Variable(table),
        tf.Variable(tf.fill(table.shape, 0.1)),
        tf.Variable(tf.zeros(table.shape)),
    ]
    optimizer = tf_opt.Ftrl(
        0.5, **STRENGTHS, lazy_mode=True, implementation=implementation
    )
    for step in range(20):
        rng = np.random.default_rng(step)
        rows = tf.constant(rng.permutation(ROWS - 5)[:12])
        values = tf.constant(rng.normal(size=(12, WIDTH)), "float32")
        optimizer.apply([tf.IndexedSlices(values, rows)], [table])
        var, accum, linear = (x.handle for x in expected)
        tf.raw_ops.ResourceSparseApplyFtrlV2(
            var=var,
            accum=accum,
            linear=linear,
            grad=values,
            indices=rows,
            lr=0.5,
            l1=0.25,
            # TensorFlow's op doubles it. Keras 2 adds beta as here.
            l2=0.125 + 0.5 / (2 * 0.5),
            l2_shrinkage=0.25,
            lr_power=-0.5,
        )
    found = [table, *(slot[0] for slot in optimizer._state.slots)]
    assert_close(found, expected, rtol=2e-5, atol=2e-6)
    assert np.mean(found[0].numpy()[:-5] == 0) > 0.02


def test_other_powers_run_composed_and_equal_keras():
    arguments = {"learning_rate_power": -0.75, "learning_rate": 0.5}
    theirs = _train(keras.optimizers.Ftrl(**arguments, **STRENGTHS))
    optimizer = tf_opt.Ftrl(**arguments, **STRENGTHS)
    np.testing.assert_allclose(_train(optimizer), theirs, rtol=1e-5, atol=1e-6)
    assert optimizer.implementation_in_use == "composed"
    optimizer.learning_rate_power = -0.5
    (table,) = optimizer._trainable_variables
    optimizer.apply([tf.ones_like(table)])
    assert optimizer.implementation_in_use == "custom_op"
    optimizer = tf_opt.Ftrl(**arguments, implementation="custom_op")
    with pytest.raises(ValueError, match="`learning_rate_power` must be -0.5"):
        _train(optimizer)


def test_a_rate_of_zero_changes_nothing(implementation):
    for rate, factor in ((0.5, 0.0), (0.0, 1.0)):
        optimizer = tf_opt.Ftrl(
            rate,
            **STRENGTHS,
            learning_rate_multipliers={".*": factor},
            implementation=implementation,
        )
        np.testing.assert_array_equal(_train(optimizer), _table().numpy())
    for slot, first in zip(optimizer._state.slots, (0.1, 0.0), strict=True):
        assert np.all(slot[0].numpy() == np.float32(first))


def test_an_accumulator_of_zero_gives_no_nan(implementation):
    table = _table()
    optimizer = tf_opt.Ftrl(
        0.5, initial_accumulator_value=0.0, implementation=implementation
    )
    optimizer.apply([tf.zeros_like(table)], [table])
    np.testing.assert_array_equal(table.numpy(), np.zeros((ROWS, WIDTH)))
