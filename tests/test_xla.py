"""Steps under jit_compile=True, beside those outside of it."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from small_model import assert_close

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


def test_hyperparameters_count_that_changed_after_compiling():
    variable = keras.Variable([1.0])
    decay = keras.Variable(0.0)
    optimizer = tf_opt.AdamW(0.1, weight_decay=decay)
    optimizer.build([variable])
    step = XLA(lambda: optimizer.apply([tf.zeros(1)], [variable]))
    step()
    assert variable.numpy() == 1.0
    decay.assign(0.5)
    step()
    assert variable.numpy() == pytest.approx(0.95)
    optimizer.learning_rate = 0.0
    step()
    assert variable.numpy() == pytest.approx(0.95)


@pytest.mark.parametrize("lazy_mode", [False, True, {"table": "catch_up"}])
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
