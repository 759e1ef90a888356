"""What Keras takes for gradients, and what is said of what it can't take."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from allpairspy import AllPairs

from counterparts import COUNTERPARTS
from registry import quick_first
from trajectory import RUNS

IMPLEMENTATIONS = ["custom_op", "composed"]

GRADIENTS = {
    "NumPy array": lambda: np.array([[0.5, -0.5], [0.25, 1.0]]),
    "list": lambda: [[0.5, -0.5], [0.25, 1.0]],
    "keras.Variable": lambda: keras.Variable([[0.5, -0.5], [0.25, 1.0]]),
    "tf.Variable": lambda: tf.Variable([[0.5, -0.5], [0.25, 1.0]]),
    "scalar": lambda: tf.constant(0.5),
    "Python float": lambda: 0.5,
    "row": lambda: tf.constant([0.5, -0.5]),
    "integers": lambda: np.array([[1, 2], [3, 4]]),
    "float64": lambda: tf.constant([[0.5, -0.5], [0.25, 1.0]], tf.float64),
    "slices": lambda: tf.IndexedSlices(
        tf.constant([[0.5, -0.5], [0.25, 1.0]]), [1, 0], [2, 2]
    ),
}


def step(optimizer, gradients, variables, how: str) -> None:
    RUNS[how](lambda: optimizer.apply(gradients, variables))()


@pytest.mark.core
@pytest.mark.parametrize(
    ("kind", "implementation", "how"),
    quick_first(
        AllPairs([list(GRADIENTS), IMPLEMENTATIONS, ["eager", "tf.function"]])
    ),
)
def test_what_keras_converts_is_converted(kind, implementation, how):
    pair = COUNTERPARTS["Adam"]
    variables = []
    for optimizer in (pair.ours(implementation=implementation), pair.keras()):
        variable = keras.Variable([[1.0, 2.0], [3.0, 4.0]])
        optimizer.build([variable])
        for _ in range(2):
            step(optimizer, [GRADIENTS[kind]()], [variable], how)
        variables.append(variable.numpy())
    np.testing.assert_allclose(*variables, rtol=1e-6)
    assert (variables[0] != [[1.0, 2.0], [3.0, 4.0]]).any()


INTEGERS = [
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
]
# Each has other uses of the indices.
WITH_SLICES = {
    "exact": {},
    "lazy": {"lazy_mode": True},
    "measured": {"global_clipnorm": 0.5},
    "accumulated": {"gradient_accumulation_steps": 2},
}


@pytest.mark.parametrize(
    ("dtype", "options", "values", "implementation", "how"),
    quick_first(
        AllPairs(
            [
                INTEGERS,
                list(WITH_SLICES),
                # Slices of another type become dense.
                ["float32", "float64"],
                IMPLEMENTATIONS,
                list(RUNS),
            ],
            filter_func=lambda x: x[3:] != ["custom_op", "jit_compile"],
        )
    ),
)
def test_indices_may_be_any_integers(
    dtype, options, values, implementation, how
):
    tables = []
    for integers in (dtype, "int64"):
        # More rows than 8 bits have numbers.
        table = keras.Variable(np.ones((300, 2)), dtype="float32")
        optimizer = tf_opt.Adam(
            0.1, implementation=implementation, **WITH_SLICES[options]
        )
        optimizer.build([table])
        gradient = tf.IndexedSlices(
            tf.constant(np.arange(6).reshape(3, 2), values),
            tf.constant([50, 3, 50], integers),
        )
        for _ in range(2):
            step(optimizer, [gradient], [table], how)
        tables.append(table.numpy())
    np.testing.assert_array_equal(*tables)
    np.testing.assert_array_equal(
        np.unique(np.where(tables[0] != 1)[0]), [3, 50]
    )


@pytest.mark.parametrize(
    ("dtype", "wrong"), [("int8", -1), ("uint16", 300), ("uint64", 2**64 - 1)]
)
def test_integers_of_any_type_that_are_no_rows_are_refused(
    dtype, wrong, implementation, how
):
    table = keras.Variable(np.ones((300, 2)), name="table")
    optimizer = tf_opt.SGD(0.1, implementation=implementation)
    optimizer.build([table])
    gradient = tf.IndexedSlices(tf.ones((1, 2)), tf.constant([wrong], dtype))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"table\b.* in \[0, 300\)"
    ):
        step(optimizer, [gradient], [table], how)
    np.testing.assert_array_equal(table.numpy(), np.ones((300, 2)))


def test_int32_has_rows_of_a_table_with_more_rows_than_it_has_numbers(
    implementation,
):
    # Without columns it takes no memory.
    table = tf.Variable(tf.zeros((2**31, 0)))
    optimizer = tf_opt.SGD(0.1, implementation=implementation)
    optimizer.build([table])
    for dtype in ("int32", "int64"):
        rows = tf.constant([2**31 - 1], dtype)
        optimizer.apply([tf.IndexedSlices(tf.zeros((1, 0)), rows)], [table])
    assert int(optimizer.iterations) == 2


@pytest.mark.parametrize(
    ("dtype", "implementation"),
    [
        ("float32", "custom_op"),
        ("float64", "composed"),
        # One variable by the op, the other composed.
        ("complex64", "auto"),
    ],
)
def test_a_gradient_of_a_wrong_shape_names_the_variable_and_writes_nothing(
    dtype, implementation, how
):
    variables = [
        keras.Variable([1.0, 2.0], name="first"),
        keras.Variable([1.0, 2.0], name="second", dtype=dtype),
    ]
    optimizer = tf_opt.Adam(0.1, implementation=implementation)
    optimizer.build(variables)
    gradients = [tf.ones(2), tf.ones(3)]
    with pytest.raises(ValueError, match=r"`second`.*\(2,\).*\(3,\)"):
        step(optimizer, gradients, variables, how)
    for variable in variables:
        np.testing.assert_array_equal(variable.numpy(), [1.0, 2.0])
    assert int(optimizer.iterations.numpy()) == 0


def test_what_is_no_gradient_names_the_variable(implementation):
    variable = keras.Variable([1.0, 2.0], name="kernel")
    optimizer = tf_opt.Adam(0.1, implementation=implementation)
    with pytest.raises(TypeError, match="`kernel`.*Received: {'a': 1}"):
        optimizer.apply([{"a": 1}], [variable])


def test_no_gradients_at_all_are_no_step_as_in_keras():
    variable = keras.Variable([1.0])
    for optimizer in (tf_opt.Adam(0.1), keras.optimizers.Adam(0.1)):
        optimizer.build([variable])
        optimizer.apply([])
        optimizer.apply([], [variable])
        assert int(optimizer.iterations.numpy()) == 0
        with pytest.raises(ValueError, match="No gradients provided"):
            optimizer.apply([None], [variable])


@pytest.mark.parametrize("count", [1, 3])
def test_another_number_of_gradients_is_an_error(count):
    variables = [keras.Variable([1.0]), keras.Variable([1.0])]
    optimizer = tf_opt.Adam(0.1)
    message = f"one gradient for each of the 2 variables. Received: {count}"
    for arguments in ([variables], []):
        with pytest.raises(ValueError, match=message):
            optimizer.apply([tf.ones(1)] * count, *arguments)
        optimizer.build(variables)


@pytest.mark.core
@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize(
    "given",
    [np.zeros(2), tf.constant([1.0, 2.0]), "w", None],
    ids=["array", "tensor", "string", "None"],
)
def test_what_is_no_variable_is_refused(given, built):
    optimizer = tf_opt.Adam()
    if built:
        optimizer.build([keras.Variable([1.0, 2.0])])
    with pytest.raises(
        TypeError, match=r"`trainable_variables` must be variables\. .*\[0\]="
    ):
        optimizer.apply([tf.ones(2)], [given])
