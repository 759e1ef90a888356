"""What ops and rules take for an argument, and what they say of others.

That a kernel checks what it gets is in test_ops.py and test_ops_checks.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from op_cases import OPS
from op_cases import Launch
from op_cases import call_rule

every_op = pytest.mark.parametrize("name", OPS)
everywhere = pytest.mark.parametrize(
    "in_graph", [False, True], ids=["eager", "graph"]
)


def assert_equal(state: Launch, expected: Launch) -> None:
    np.testing.assert_equal(state.numpy(), expected.numpy())


def apply_op(name: str, **changes: Any) -> list[np.ndarray]:
    return Launch(name).apply(**changes).numpy()


def apply_op_in_graph(name: str, **changes: Any) -> list[np.ndarray]:
    return Launch(name).apply(in_graph=True, **changes).numpy()


def apply_rule(name: str, **changes: Any) -> list[np.ndarray]:
    return [x.numpy() for x in call_rule(name, **changes) if x is not None]


every_way = pytest.mark.parametrize(
    "way", [apply_op, apply_op_in_graph, apply_rule]
)


def function_of(name: str, way: Callable) -> Callable:
    return OPS[name].rule if way == apply_rule else OPS[name].apply


def reals_of(name: str, way: Callable) -> dict[str, float]:
    return {**OPS[name].reals(function_of(name, way)), "weight_decay": 0.5}


def integers_of(name: str, way: Callable) -> dict[str, int]:
    return OPS[name].integers(function_of(name, way))


REALS = {
    "NumPy's": np.float32,
    "NumPy's, 16 bits": np.float16,
    "array": np.array,
    "tensor": tf.constant,
    "tensor, 16 bits": lambda x: tf.constant(x, tf.bfloat16),
    "tf.Variable": tf.Variable,
    "keras.Variable": keras.Variable,
}
INTEGERS = {
    "NumPy's": np.int32,
    "NumPy's, unsigned": np.uint64,
    "array": np.array,
    "tensor": tf.constant,
    "tensor, 8 bits": lambda x: tf.constant(x, tf.uint8),
    "tf.Variable": lambda x: tf.Variable(x, dtype=tf.int64),
    "keras.Variable": lambda x: keras.Variable(x, dtype="int32"),
}


@every_way
@every_op
def test_every_kind_of_number_is_the_number(name: str, way: Callable) -> None:
    for makes, numbers in (
        (REALS, reals_of(name, way)),
        (INTEGERS, integers_of(name, way)),
    ):
        expected = way(name, **numbers)
        for make in makes.values():
            made = {key: make(x) for key, x in numbers.items()}
            np.testing.assert_equal(way(name, **made), expected)


@everywhere
@pytest.mark.parametrize("make", [float, np.array, tf.Variable])
def test_a_number_keeps_all_its_digits(make: Callable, in_graph: bool) -> None:
    number = make(0.999)
    if make is tf.Variable:
        number = make(0.999, dtype=tf.float64)
    launch = Launch("adam")
    launch.lists = {
        name: [tf.Variable([0.0], dtype=tf.float64)]
        for name in ("variables", "m", "v")
    }
    launch.gradients = [[1.0]]
    launch.apply(in_graph, beta_1=number, beta_2=number)
    for name in ("m", "v"):
        assert launch.lists[name][0].numpy() == 1 - np.float64(0.999)


DECAYS = {
    "list": lambda: [0.5, 0.25],
    "tuple": lambda: (0.5, 0.25),
    "list of integers and floats": lambda: [np.float32(0.5), 0.25],
    "array": lambda: np.array([0.5, 0.25], "float32"),
    "tensor": lambda: tf.constant([0.5, 0.25]),
    "tf.Variable": lambda: tf.Variable([0.5, 0.25]),
    "keras.Variable": lambda: keras.Variable([0.5, 0.25]),
    "list of variables": lambda: [tf.Variable(0.5), keras.Variable(0.25)],
}


@everywhere
@pytest.mark.parametrize("kind", DECAYS)
def test_each_variable_has_its_weight_decay(kind: str, in_graph: bool) -> None:
    one, other = (
        Launch("asgd").apply(weight_decay=x).numpy() for x in (0.5, 0.25)
    )
    # What has the first variable's decay, and what has the second's.
    expected = [
        pair[i % 2] for i, pair in enumerate(zip(one, other, strict=True))
    ]
    state = Launch("asgd").apply(in_graph, weight_decay=DECAYS[kind]())
    assert (expected[1] != one[1]).all()
    np.testing.assert_equal(state.numpy(), expected)


def test_a_variable_is_read_at_each_step_not_when_it_is_traced() -> None:
    numbers = {
        "learning_rate": tf.Variable(0.5),
        "weight_decay": keras.Variable(0.5),
        "step": tf.Variable(1),
    }
    states = Launch("adam"), Launch("adam")
    step = tf.function(lambda: states[0].apply(**numbers) and None)
    for value in (1, 2):
        numbers["learning_rate"].assign(0.5 / value)
        numbers["weight_decay"].assign(0.25 * value)
        numbers["step"].assign(value)
        step()
        states[1].apply(
            learning_rate=0.5 / value, weight_decay=0.25 * value, step=value
        )
    assert_equal(*states)


GRADIENTS = {
    "arrays": np.asarray,
    "arrays of float64": lambda x: np.asarray(x, "float64"),
    "lists": lambda x: x.numpy().tolist(),
    "tf.Variable": tf.Variable,
    "keras.Variable": keras.Variable,
}


@everywhere
@every_op
def test_gradients_become_tensors(name: str, in_graph: bool) -> None:
    expected = Launch(name).apply()
    for make in GRADIENTS.values():
        state = Launch(name)
        state.gradients = [make(gradient) for gradient in state.gradients]
        assert_equal(state.apply(in_graph), expected)


@everywhere
@every_op
def test_keras_variables_and_other_iterables(name: str, in_graph: bool) -> None:
    expected = Launch(name).apply()
    state = Launch(name, make=keras.Variable)
    tuples = {key: tuple(values) for key, values in state.lists.items()}
    state.apply(in_graph, **tuples, gradients=tuple(state.gradients))
    assert_equal(state, expected)
    state = Launch(name)
    state.apply(gradients=(gradient for gradient in state.gradients))
    assert_equal(state, expected)


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


@every_way
@every_op
def test_what_is_no_number_is_named(name: str, way: Callable) -> None:
    for expected, numbers, cases in (
        ("a number|a float64", reals_of(name, way), NO_NUMBER),
        ("an integer", integers_of(name, way), NO_INTEGER),
    ):
        for key, (value, received) in itertools.product(
            numbers, cases.values()
        ):
            if (way, key, value) == (apply_rule, "eta", None):
                # Then the step size is the learning rate.
                continue
            message = rf"(?s)`{key}` must be ({expected}).*Received.*{received}"
            with pytest.raises(ValueError, match=message):
                way(name, **{key: value})
        for key in numbers:
            shape = (1,) if key != "weight_decay" else (1, 1)
            with pytest.raises(ValueError, match=rf"`{key}` must be a scalar"):
                way(name, **{key: tf.ones(shape, tf.int64)})


@every_way
@pytest.mark.parametrize(
    "mode", ["decoupled_weight_decay", "maximize", "epsilon_hat"]
)
def test_a_mode_is_true_or_false(mode: str, way: Callable) -> None:
    expected = way("adam", **{mode: True})
    np.testing.assert_equal(way("adam", **{mode: np.True_}), expected)
    for value in ("no", None, 1, tf.constant(True)):
        with pytest.raises(ValueError, match=f"`{mode}` must be True or False"):
            way("adam", **{mode: value})


WRONG_LISTS: dict[str, tuple[Callable[[Launch], dict], str]] = {
    "no gradients": (
        lambda s: {"gradients": []},
        "`gradients` must not be empty",
    ),
    "too few gradients": (
        lambda s: {"gradients": s.gradients[:1]},
        "`variables` must have one variable for each of the 1 `grad.*, got 2",
    ),
    "one gradient": (
        lambda s: {"gradients": s.gradients[0]},
        "`gradients` must be a list of tensors. Received: .*Tensor",
    ),
    "None": (
        lambda s: {"v_max": None},
        "`v_max` must be a list of variables. Received: None",
    ),
    "a gradient that is None": (
        lambda s: {"gradients": [s.gradients[0], None]},
        r"`gradients\[1\]` must be a tensor.*Received: None",
    ),
    "a gradient's type": (
        lambda s: {
            "gradients": [s.gradients[0], tf.zeros(4, tf.float64)],
        },
        r"`gradients\[1\]` must be .* variables' type, float32.*: float64",
    ),
    "variables of integers": (
        lambda s: {"variables": [tf.Variable([1]), tf.Variable([2])]},
        "`variables` must have one of the types float32.* Received: int32",
    ),
    "too few decays": (
        lambda s: {"weight_decay": [0.5]},
        "`weight_decay` must .* one element for each of the 2 .*, got 1",
    ),
    "a decay that is a string": (
        lambda s: {"weight_decay": [0.5, "0.5"]},
        r"`weight_decay\[1\]` must be a number. Received: .*'0.5'",
    ),
}


@everywhere
@pytest.mark.parametrize("wrong", WRONG_LISTS)
def test_a_wrong_list_is_named(wrong: str, in_graph: bool) -> None:
    change, message = WRONG_LISTS[wrong]
    state = Launch("adam")
    before = state.numpy()
    with pytest.raises((TypeError, ValueError), match=message):
        state.apply(in_graph, **change(state))
    np.testing.assert_equal(state.numpy(), before)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seed": 1.5}, "`seed` must be"),
        ({"seed": tf.constant(1)}, "`seed` must be Python's integer"),
        ({"seed": 2**63}, "`seed` must be an integer of 64 bits"),
        ({"iteration": 0.5}, "`iteration` must be an integer"),
        ({"stochastic_rounding": 1}, "`stochastic_rounding` must be True"),
        ({"variable_numbers": [0, 1]}, "`variable_numbers` must be one num"),
        ({"master_weights": 3.0}, "`master_weights` must be a list"),
        ({"master_weights": [None] * 2}, "`master_weights` must have one"),
    ],
)
def test_what_is_wrong_in_a_frame_is_named(wrong, message):
    variable = tf.Variable([1.0], dtype=tf.bfloat16)
    m, v = (tf.Variable([0.0]) for _ in range(2))
    if wrong.get("master_weights") == [None] * 2:
        wrong = {"master_weights": [m, v]}
    with pytest.raises((ValueError, TypeError), match=message):
        tf_opt.ops.resource_apply_adam_amsgrad(
            [variable],
            [m],
            [v],
            [tf.ones(1, tf.bfloat16)],
            step=1,
            frame=tf_opt.ops.StepFrame(**wrong),
        )
    assert variable.numpy() == [1.0]
