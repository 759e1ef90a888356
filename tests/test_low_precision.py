"""What is promised of 16 bits: no step is lost, and nothing is undone."""

import random

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from low_precision_cases import masters_of, numbers
from registry import OPTIMIZERS

pytestmark = pytest.mark.kernels


def bfloat16(*values, **arguments) -> keras.Variable:
    return keras.Variable(np.array(values), dtype="bfloat16", **arguments)


def descent(**arguments) -> tf_opt.ASGD:
    """With one batch: p <- p - lr * g."""
    return tf_opt.ASGD(2.0**-7, **arguments)


def test_a_type_goes_by_any_of_its_names():
    for dtype in ("bfloat16", tf.bfloat16, ml_dtypes.bfloat16):
        assert tf_opt.Adam(state_dtype=dtype).state_dtype == "bfloat16"
    assert tf_opt.Adam(state_dtype=np.float32).state_dtype == "float32"


def test_a_seed_is_drawn_where_bits_are_needed_and_only_there():
    def next_of_keras() -> int:
        return int(keras.random.SeedGenerator().state.numpy()[0])

    keras.utils.set_random_seed(4)
    expected = [next_of_keras(), next_of_keras()]
    keras.utils.set_random_seed(4)
    for arguments in ({}, {"master_weights": True}, {"state_dtype": "float32"}):
        assert tf_opt.Adam(**arguments).get_config()["seed"] is None
    optimizer = tf_opt.Adam(stochastic_rounding=True)
    assert [optimizer.seed, next_of_keras()] == expected
    assert optimizer.get_config()["seed"] == expected[0]
    random.seed(0)
    assert tf_opt.Adam(state_dtype="bfloat16", seed=9).seed == 9
    state = random.getstate()
    tf_opt.Adam(state_dtype="bfloat16", seed=9)
    assert random.getstate() == state


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_masters_are_of_16_bits_only_and_after_keras_variables(name):
    def described(**arguments):
        variables = [
            keras.Variable([1.0, 0.1], dtype=dtype, name=dtype)
            for dtype in ("float16", "float32", "bfloat16", "float64")
        ]
        optimizer = OPTIMIZERS[name].make(
            use_ema=True, gradient_accumulation_steps=2, **arguments
        )
        optimizer.build(variables)
        return [(x.name, tuple(x.shape)) for x in optimizer.variables]

    assert described(master_weights=True) == described() + [
        (f"{dtype}_master_weight", (2,)) for dtype in ("float16", "bfloat16")
    ]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_master_counts_where_it_is_the_variable(dtype, implementation):
    inf, nan = np.inf, np.nan
    # Master, variable, and whether they are the same.
    cases = [
        (1.0001, 1.0, True),
        (1.0001, 1.125, False),
        (0.0, 5.0, False),
        (-0.0, 0.0, True),
        (1e-30, 0.0, dtype == "float16"),
        (3e38, inf, dtype == "float16"),
        (inf, inf, True),
        (inf, -inf, False),
        (nan, nan, True),
        (nan, 2.0, False),
        (2.0, nan, False),
        (-1.0001, 1.0, False),
    ]
    masters, values, same = (np.array(x) for x in zip(*cases, strict=True))
    variable = keras.Variable(values, dtype=dtype)
    optimizer = descent(master_weights=True, implementation=implementation)
    optimizer.build([variable])
    (master,) = masters_of(optimizer)
    master.assign(masters.astype(np.float32))
    optimizer.apply([tf.zeros(len(cases), dtype)], [variable])
    expected = np.where(same, masters.astype(np.float32), values)
    np.testing.assert_array_equal(master.numpy(), expected)
    np.testing.assert_array_equal(
        numbers(variable), np.where(np.isclose(values, 1), 1, values)
    )


def test_micro_steps_let_an_average_follow_a_variable_that_was_set(
    implementation,
):
    variable = bfloat16(1.0)
    optimizer = descent(
        master_weights=True,
        use_ema=True,
        ema_momentum=0.5,
        gradient_accumulation_steps=2,
        implementation=implementation,
    )
    gradient = tf.constant([0.25], tf.bfloat16)
    for _ in range(2):
        optimizer.apply([gradient], [variable])
    (average,) = optimizer._model_variables_moving_average
    before = numbers(average)
    variable.assign([4.0])
    optimizer.apply([gradient], [variable])
    np.testing.assert_array_equal(numbers(average), 0.5 * before + 2.0)
    assert masters_of(optimizer)[0].numpy() == [4.0]


def test_finalizing_takes_the_exact_average():
    variable = bfloat16(2.0)
    optimizer = descent(master_weights=True, use_ema=True)
    optimizer.apply([tf.constant([0.25], tf.bfloat16)], [variable])
    optimizer._model_variables_moving_average[0].assign([3.001])
    optimizer.finalize_variable_values([variable])
    np.testing.assert_array_equal(numbers(variable), [3.0])
    assert masters_of(optimizer)[0].numpy() == np.float32(3.001)


@pytest.mark.parametrize(
    ("constraint", "implementation"),
    [
        (keras.constraints.NonNeg(), "custom_op"),
        (keras.constraints.UnitNorm(), "composed"),
    ],
)
def test_a_constraint_does_not_take_the_small_steps(constraint, implementation):
    def train(dtype, **arguments):
        variable = keras.Variable([0.6, 0.8], dtype=dtype)
        variable.constraint = constraint
        optimizer = tf_opt.ASGD(
            2.0**-10, implementation=implementation, **arguments
        )
        gradient = tf.constant([1, -1], variable.dtype)
        optimizer.build([variable])
        step = tf.function(lambda: optimizer.apply([gradient], [variable]))
        for _ in range(100):
            step()
        return numbers(variable)

    expected = train("float32")
    found = train("bfloat16", master_weights=True)
    np.testing.assert_allclose(found, expected, atol=2**-8)
    np.testing.assert_allclose(train("bfloat16"), [0.6, 0.8], atol=2**-8)
    assert np.abs(expected - [0.6, 0.8]).min() > 0.05


def test_a_row_that_does_not_occur_keeps_its_master(implementation):
    table = bfloat16([1.0], [2.0], [3.0])
    optimizer = descent(
        master_weights=True, lazy_mode=True, implementation=implementation
    )
    optimizer.build([table])
    (master,) = masters_of(optimizer)
    gradient = tf.IndexedSlices(
        tf.constant([[0.125]], tf.bfloat16), tf.constant([1]), (3, 1)
    )
    table.assign([[5.0], [6.0], [7.0]])
    optimizer.apply([gradient], [table])
    expected = [[0.0], [6.0 - 2.0**-10], [0.0]]
    np.testing.assert_array_equal(master.numpy(), expected)
    np.testing.assert_array_equal(numbers(table), [[5.0], [6.0], [7.0]])
