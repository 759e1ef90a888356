"""The rules on pure tensors: what they take, and errors.

Their numbers are in test_unroll.py, their derivatives in
test_differentiable.py.
"""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from op_cases import OPS, call_rule

DTYPES = ["float16", "bfloat16", "float32", "float64"]

every_rule = pytest.mark.parametrize("rule", OPS)


@every_rule
def test_rule_takes_what_tensorflow_makes_tensors_of(rule):
    slots = OPS[rule].slots
    expected = call_rule(rule)
    names = ["variable", "gradient", *slots]
    tensors = {name: [1.0, 2.0 + i] for i, name in enumerate(names)}
    for make in (list, tf.Variable, keras.Variable, np.float32):
        made = {name: make(value) for name, value in tensors.items()}
        result = call_rule(rule, **made)
        for ours, theirs in zip(result, expected, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    # What has no type yet gets the variable's, or that of its slots.
    for dtype in (tf.float32, tf.bfloat16):
        made = {name: np.array(value) for name, value in tensors.items()}
        made["variable"] = tf.constant(tensors["variable"], dtype)
        result = call_rule(rule, **made)
        assert result.variable.dtype == dtype
        for slot in result[1 : 1 + len(slots)]:
            assert slot.dtype == tf.float32


REALS = {
    "NumPy's": np.float32,
    "array": np.array,
    "tensor, 16 bits": lambda x: tf.constant(x, tf.bfloat16),
    "tf.Variable": tf.Variable,
    "keras.Variable": keras.Variable,
}
INTEGERS = {
    "NumPy's, unsigned": np.uint64,
    "array": np.array,
    "tensor, 8 bits": lambda x: tf.constant(x, tf.uint8),
    "tf.Variable": lambda x: tf.Variable(x, dtype=tf.int64),
    "keras.Variable": lambda x: keras.Variable(x, dtype="int32"),
}


def numbers_of(rule: str) -> tuple[dict[str, float], dict[str, int]]:
    numbers = {**OPS[rule].rule_numbers, "weight_decay": 0.5}
    integers = OPS[rule].integers
    return (
        {name: x for name, x in numbers.items() if name not in integers},
        {name: x for name, x in numbers.items() if name in integers},
    )


@every_rule
def test_every_kind_of_number_is_the_number(rule):
    expected = [x.numpy() for x in call_rule(rule)]
    for makes, numbers in zip((REALS, INTEGERS), numbers_of(rule), strict=True):
        for make in makes.values():
            made = {key: make(x) for key, x in numbers.items()}
            result = [x.numpy() for x in call_rule(rule, **made)]
            np.testing.assert_equal(result, expected)


# What is given for a number, and what is said of it.
NO_NUMBER = {
    "string": ("0.9", "'0.9'"),
    "None": (None, "None"),
    "bool": (True, "True"),
    "complex": (0.5j, "0.5j"),
    "tensor of strings": (tf.constant("0.9"), "0.9"),
    "tensor of booleans": (tf.constant(True), "True"),
    "object": (object(), "<object object"),
    "too large": (10**400, "1000"),
}
NO_INTEGER = {
    "float": (1.5, "1.5"),
    "whole float": (2.0, "2.0"),
    "NumPy's": (np.float32(1.5), "1.5"),
    "array": (np.array(1.5), "1.5"),
    "tensor": (tf.constant(1.5), "1.5"),
    "tf.Variable": (tf.Variable(1.5), "1.5|float32"),
    "too large": (2**63, "9223372036854775808"),
    **{key: NO_NUMBER[key] for key in ("string", "None", "bool", "object")},
}


@every_rule
def test_what_is_no_number_is_named(rule):
    expected = "a number|a float64", "an integer"
    cases = NO_NUMBER, NO_INTEGER
    for text, numbers, wrong in zip(
        expected, numbers_of(rule), cases, strict=True
    ):
        for key, (value, received) in itertools.product(
            numbers, wrong.values()
        ):
            if (key, value) == ("eta", None):
                # Then the step size is the learning rate.
                continue
            message = rf"(?s)`{key}` must be ({text}).*Received.*{received}"
            with pytest.raises(ValueError, match=message):
                call_rule(rule, **{key: value})
        for key in numbers:
            with pytest.raises(ValueError, match=rf"`{key}` must be a scalar"):
                call_rule(rule, **{key: tf.ones(1, tf.int64)})


@pytest.mark.parametrize(
    "mode", ["decoupled_weight_decay", "maximize", "epsilon_hat"]
)
def test_a_mode_is_true_or_false(mode):
    expected = call_rule("adam", **{mode: True}).variable
    result = call_rule("adam", **{mode: np.True_}).variable
    np.testing.assert_array_equal(result, expected)
    for value in ("no", None, 1, tf.constant(True)):
        with pytest.raises(ValueError, match=f"`{mode}` must be True or False"):
            call_rule("adam", **{mode: value})


@every_rule
def test_rule_names_a_number_out_of_range(rule):
    op = OPS[rule]
    for name, value, message in op.out_of_range.values():
        if name in op.rule_numbers:
            text, _, _ = message.partition(", got ")
            expected = rf"{text}\. Received: {name}={value}"
            with pytest.raises(ValueError, match=expected):
                call_rule(rule, **{name: value})


@every_rule
def test_rule_names_what_is_no_tensor(rule):
    op = OPS[rule]
    for name in ("gradient", *op.slots):
        with pytest.raises(ValueError, match=rf"`{name}` must have the shape"):
            call_rule(rule, **{name: tf.zeros(1)})
        with pytest.raises(ValueError, match=rf"`{name}` must be float32"):
            call_rule(rule, **{name: tf.zeros(2, tf.float64)})
        wrong = ["two", [[1.0], [1.0, 2.0]], np.array([1j, 2])]
        for value in [*wrong, *[None] * (name not in op.optional_slots)]:
            with pytest.raises(
                ValueError, match=f"`{name}` must be a tensor of float32"
            ):
                call_rule(rule, **{name: value})
    for value in ([1, 2], "two", tf.constant([True, False])):
        with pytest.raises(ValueError, match="`variable` must be floating"):
            call_rule(rule, variable=value)
    with pytest.raises(ValueError, match="`variable` must be a tensor"):
        call_rule(rule, variable=None)


# ---- Measuring. ----


@pytest.mark.parametrize("dtype", [tf.complex64, tf.complex128])
def test_gradients_of_several_types_are_measured(dtype):
    measures = tf_opt.functional.measure_gradients(
        [
            *(tf.constant([1.5], dtype) for dtype in DTYPES),
            tf.constant([3 + 4j, 1 - 1j], dtype),
            tf.constant([complex(1, np.inf), 0], dtype),
        ],
        [*[[0.0]] * len(DTYPES), *[tf.constant([2j, 2 + 0j], dtype)] * 2],
        gradient_scale=2.0,
    )
    np.testing.assert_array_equal(
        measures.sums_of_squares, [9.0] * 4 + [36 + 100 + 16 + 4, np.inf]
    )
    assert measures.finite.numpy().tolist() == [True] * 5 + [False]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("gradients", [], "must not be empty"),
        ("gradients", [tf.constant([1])], "must be floating point or complex"),
        ("accumulators", [tf.zeros(2)] * 2, "one tensor for each of the 1"),
        ("accumulators", [tf.zeros(3)], "the shape of `gradients"),
        ("accumulators", [tf.zeros(2, tf.float64)], "must be float32, because"),
        ("gradient_scale", "x", "must be a number"),
        ("enabled", "no", "must be a bool"),
    ],
)
def test_measuring_names_a_wrong_argument(name, value, message):
    arguments = {"gradients": [tf.zeros(2)], name: value}
    with pytest.raises(ValueError, match=f"`{name}.*{message}"):
        tf_opt.functional.measure_gradients(**arguments)
