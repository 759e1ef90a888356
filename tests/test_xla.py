"""The ops under jit_compile=True, as those outside of it are used."""

from __future__ import annotations

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from registry import OPTIMIZERS
from small_model import assert_close
from small_model import assert_same
from xla_kernels import needs_sparse_xla_kernels
from xla_kernels import needs_xla_kernels

pytestmark = needs_xla_kernels

XLA = tf.function(jit_compile=True)
# More than one call updates, and of each more than one element.
SHAPES = [(2, 3), (), (0,), (5,)] * 9


def variables_of(shapes):
    random = np.random.default_rng(1)
    return [
        keras.Variable(random.normal(size=shape), name=f"v{i}")
        for i, shape in enumerate(shapes)
    ]


def stepper(optimizer, variables):
    def step():
        optimizer.apply([v * 0.5 for v in variables], variables)

    return step


def numbers(optimizer, variables):
    return [x.numpy() for x in (*variables, *optimizer.variables)]


@pytest.mark.kernels
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_many_variables_with_numbers_of_their_own_take_several_calls(name):
    found = []
    for way in (tf.function, XLA):
        variables = variables_of(SHAPES)
        optimizer = OPTIMIZERS[name].make(
            0.1,
            weight_decay=0.1,
            learning_rate_multipliers={f"v{i}$": i % 7 for i in range(36)},
            weight_decay_multipliers={f"v{i}$": i % 5 for i in range(36)},
        )
        optimizer.build(variables)
        step = way(stepper(optimizer, variables))
        for _ in range(3):
            step()
        assert optimizer.implementation_in_use == "custom_op"
        found.append(numbers(optimizer, variables))
    # A number that these keep between steps is a power of TensorFlow's, or of
    # XLA's.
    tolerance = 1e-14 if name in ("AveragedSGD", "NAdam") else 0
    assert_close(*found, rtol=tolerance)


def test_what_was_read_before_a_step_stays_as_it_was():
    variable = keras.Variable([1.0, 2.0])
    optimizer = tf_opt.Adam(0.1)
    optimizer.build([variable])
    step = XLA(lambda: optimizer.apply([tf.ones(2)], [variable]))
    step()
    kept = [variable, *optimizer.variables]
    read = [tf.identity(tf.convert_to_tensor(x)) for x in kept]
    shared = [x.value.read_value() for x in kept]
    expected = [x.numpy().copy() for x in shared]
    step()
    assert_same([x.numpy() for x in shared], expected)
    assert_same([x.numpy() for x in read], expected)
    assert (variable.numpy() != expected[0]).all()


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

    assert_same(train(XLA), train(tf.function))


def test_a_loop_inside_a_compiled_function():
    def train(way):
        variable = keras.Variable([1.0, -2.0])
        optimizer = tf_opt.AdamW(0.1, use_ema=True, clipnorm=0.5)
        optimizer.build([variable])

        @way
        def loop(count):
            i = tf.constant(0)
            while i < count:
                optimizer.apply([variable * 0.5], [variable])
                i += 1

        loop(tf.constant(5))
        assert int(optimizer.iterations) == 5
        return numbers(optimizer, [variable])

    assert_close(train(XLA), train(tf.function), rtol=1e-6)


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


def test_threads_share_a_compiled_step():
    # Large enough for all threads of XLA's to take part in each.
    variables = variables_of([(300, 1000)] * 3)
    optimizer = tf_opt.ASGD(0.1, global_clipnorm=1.0)
    optimizer.build(variables)
    gradients = [tf.ones(v.shape) for v in variables]
    step = XLA(lambda: optimizer.apply(gradients, variables))
    step()
    threads = [
        threading.Thread(target=lambda: [step() for _ in range(10)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert int(optimizer.iterations) == 41


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("chosen", "features"),
    [
        ([0, 2, 3, 5], {}),
        ([2, 3, 4, 5], {"global_clipnorm": 1.0}),
        ([0, 2, 3, 5], {"clipnorm": 1.0, "gradient_accumulation_steps": 2}),
        ([2, 3, 4, 5], {"skip_nonfinite": True}),
    ],
)
def test_a_gradient_may_be_of_what_an_op_chooses(chosen, features):
    values = tf.constant([3.0, float("nan"), -2.0, 0.5, 1.0, 4.0])
    mask = np.isin(np.arange(6), chosen)

    def train(how) -> list[np.ndarray]:
        variables = [tf.Variable(tf.zeros(4)), tf.Variable(tf.ones(2))]
        optimizer = tf_opt.Adam(0.5, **features)
        optimizer.build(variables)

        @how
        def step(mask: tf.Tensor) -> None:
            gradient = tf.boolean_mask(values, mask)
            optimizer.apply([gradient, tf.ones(2)], variables)

        for _ in range(2):
            step(tf.constant(mask))
        found = numbers(optimizer, variables)
        if how is XLA:
            with pytest.raises(
                tf.errors.InvalidArgumentError,
                match=r"`gradients\[0\]`.*another size",
            ):
                step(tf.constant([True, False, True, True, False, False]))
            assert_same([v.numpy() for v in variables], found[:2])
        return found

    expected = train(tf.function)
    assert not np.isnan(expected[0]).any() and expected[0].all()
    assert_close(train(XLA), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.kernels
@needs_sparse_xla_kernels
@pytest.mark.parametrize(
    ("dtype", "of_gradient", "row", "features"),
    [
        ("bfloat16", "float32", 9, {}),
        ("bfloat16", "float32", -1, {"skip_nonfinite": True}),
        ("float32", "float64", -1, {}),
        ("float32", "float64", 9, {"skip_nonfinite": True}),
    ],
)
def test_a_wrong_row_is_found_in_a_gradient_of_another_type(
    dtype, of_gradient, features, row
):
    table = keras.Variable(np.ones((5, 2)), dtype=dtype, name="table")
    optimizer = tf_opt.Adam(0.1, **features)
    optimizer.build([table])

    @XLA
    def step(values: tf.Tensor, rows: tf.Tensor) -> None:
        optimizer.apply([tf.IndexedSlices(values, rows)], [table])

    values = tf.ones((2, 2), of_gradient)
    message = rf"\(of table\) must be in \[0, 5\), .* got {row}"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        step(values, tf.constant([1, row]))
    np.testing.assert_array_equal(table.numpy().astype("float32"), 1)
    step(values, tf.constant([1, 4]))
    changed = (table.numpy().astype("float32") != 1).any(axis=1)
    assert changed.nonzero()[0].tolist() == [1, 4]


def test_rows_of_a_sparse_gradient_must_have_a_known_size():
    table = tf.Variable(tf.zeros((5, 4)))
    optimizer = tf_opt.Adam(0.1)
    optimizer.build([table])

    @XLA
    def step(values: tf.Tensor, chosen: tf.Tensor) -> None:
        values = tf.boolean_mask(values, chosen, axis=1)
        rows = tf.IndexedSlices(
            values, tf.constant([1, 2]), tf.constant([5, 4])
        )
        optimizer.apply([rows], [table])

    with pytest.raises(tf.errors.InvalidArgumentError, match="size is known"):
        step(tf.ones((2, 4)), tf.constant([True, False, True, False]))
    np.testing.assert_array_equal(table, 0)
