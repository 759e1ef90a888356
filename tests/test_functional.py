"""The rules on pure tensors: values, complex numbers, errors.

Their derivatives are in test_differentiable.py.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

import trajectory
from reference.comparison import assert_is_reference_step
from registry import MODES
from registry import OPTIMIZERS
from registry import Arguments
from registry import pairwise

LEARNING_RATE = 0.01

# AdamW's rule is Adam's.
RULE_MODES = [(name, mode) for name, mode in MODES if name != "AdamW"]


def _state(
    name: str, arguments: Arguments, shape: tuple[int, ...], dtype: str
) -> dict[str, tf.Tensor]:
    """A variable and slots as some steps may have left them."""
    slot_dtype = "float64" if dtype == "float64" else "float32"
    state = {"variable": tf.constant(trajectory.initial_value(shape), dtype)}
    for i, slot in enumerate(OPTIMIZERS[name].slots(arguments), start=1):
        value = trajectory.gradient(shape, i)
        # A maximum is above v in some places, below in others.
        state[slot] = tf.constant(
            value**2 if slot.startswith("v") else value, slot_dtype
        )
    return state


@pytest.mark.parametrize(
    ("name", "mode", "dtype", "how"),
    pairwise(
        RULE_MODES,
        ["float16", "bfloat16", "float32", "float64"],
        list(trajectory.RUNS),
    ),
)
def test_rule_is_the_reference_step_and_changes_no_argument(
    name: str, mode: str, dtype: str, how: str
) -> None:
    shape = (7, 31)
    under_test = OPTIMIZERS[name]
    arguments = dict(under_test.modes[mode], learning_rate=LEARNING_RATE)
    state = _state(name, arguments, shape, dtype)
    before = {key: tensor.numpy().copy() for key, tensor in state.items()}
    gradient = tf.constant(trajectory.gradient(shape, 5), dtype)
    step = trajectory.RUNS[how](
        lambda state, gradient: under_test.functional(
            state, gradient, t=6, **arguments
        )
    )
    result = step(state, gradient)
    assert_is_reference_step(
        before,
        gradient.numpy(),
        {key: result[key].numpy() for key in before},
        under_test.reference,
        t=6,
        **arguments,
    )
    for key, tensor in state.items():
        np.testing.assert_array_equal(tensor.numpy(), before[key])


@pytest.mark.parametrize(
    ("name", "scalar", "expected"),
    [
        # 0.25 * mu_2; lr / (1 + lambd * lr * t)^alpha.
        ("nadam", "momentum_product", 0.25 * 0.9 * (1 - 0.5 * 0.96**0.008)),
        ("averaged_sgd", "eta", 0.5 / (1 + 0.25 * 0.5 * 2) ** 0.75),
    ],
)
def test_rule_returns_the_scalar_that_the_next_step_takes(
    name: str, scalar: str, expected: float
) -> None:
    one = tf.constant([1.0])
    if name == "nadam":
        result = tf_opt.functional.nadam(one, one, one, one, 0.25, step=2)
    else:
        result = tf_opt.functional.averaged_sgd(
            one, one, one, 0.5, step=2, learning_rate=0.5, lambd=0.25
        )
    value = getattr(result, scalar)
    assert value.dtype == tf.float64
    assert float(value) == pytest.approx(expected, rel=1e-14)


def _complex(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    real, imaginary = generator.normal(size=(2, *shape))
    return (real + 1j * imaginary).astype(dtype)


@pytest.mark.parametrize(
    ("name", "mode", "dtype"),
    [
        (*mode, ["complex64", "complex128"][i % 2])
        for i, mode in enumerate(RULE_MODES)
    ],
)
def test_complex_number_is_two_reals(name: str, mode: str, dtype: str) -> None:
    under_test = OPTIMIZERS[name]
    arguments = dict(under_test.modes[mode], learning_rate=LEARNING_RATE)
    slots = under_test.slots(arguments)
    shape = (3, 5)
    whole = {"variable": _complex(shape, dtype, 0)}
    whole.update({slot: np.zeros(shape, dtype) for slot in slots})
    halves = {
        part: {key: getattr(array, part) for key, array in whole.items()}
        for part in ["real", "imag"]
    }

    def next_state(state, gradient, step):
        state = {key: tf.constant(array) for key, array in state.items()}
        result = under_test.functional(
            state, tf.constant(gradient), t=step, **arguments
        )
        return {key: tensor.numpy() for key, tensor in result.items()}

    for step in range(1, 6):
        gradient = _complex(shape, dtype, step)
        whole = next_state(whole, gradient, step)
        for part, state in halves.items():
            halves[part] = next_state(state, getattr(gradient, part), step)
        for key in ("variable", *slots):
            assert whole[key].dtype == dtype
            for part, state in halves.items():
                np.testing.assert_array_equal(
                    getattr(whole[key], part), state[key], err_msg=key
                )


@pytest.mark.parametrize(
    ("rule", "tensors", "scalars"),
    [
        ("adam", ["m", "v", "v_max"], {"step": 1}),
        ("nadam", ["m", "v"], {"step": 1}),
        ("asgd", ["d", "y"], {"seen_batches": 1}),
        ("averaged_sgd", ["ax"], {"step": 1}),
    ],
)
def test_a_rule_names_a_wrong_tensor(
    rule: str, tensors: list[str], scalars: dict[str, int]
) -> None:
    function = getattr(tf_opt.functional, rule)
    good = {key: tf.zeros(3) for key in ("variable", "gradient", *tensors)}
    function(**good, **scalars)
    for name in ("gradient", *tensors):
        with pytest.raises(ValueError, match=rf"`{name}` must have the shape"):
            function(**{**good, name: tf.zeros(1)}, **scalars)
        with pytest.raises(ValueError, match=rf"`{name}` must be float32"):
            function(**{**good, name: tf.zeros(3, tf.float64)}, **scalars)


# What each rule takes: its slots and its numbers, which float16 holds exactly.
MOMENTS = {"learning_rate": 0.5, "beta_1": 0.5, "beta_2": 0.75, "epsilon": 0.25}
ARGUMENTS = {
    "adam": (["m", "v", "v_max"], MOMENTS, {"step": 3}),
    "nadam": (
        ["m", "v"],
        {**MOMENTS, "momentum_product": 0.25, "momentum_decay": 0.5},
        {"step": 3},
    ),
    "asgd": (["d", "y"], {"learning_rate": 0.5}, {"seen_batches": 2}),
    "averaged_sgd": (
        ["ax"],
        {
            "learning_rate": 0.5,
            "eta": 0.25,
            "lambd": 0.5,
            "alpha": 0.5,
            "t0": 1.0,
        },
        {"step": 3},
    ),
}

every_rule = pytest.mark.parametrize("rule", ARGUMENTS)


def _call(rule: str, **changes) -> tuple[tf.Tensor, ...]:
    slots, reals, integers = ARGUMENTS[rule]
    tensors = {
        name: tf.constant([1.0, 2.0 + i])
        for i, name in enumerate(["variable", "gradient", *slots])
    }
    return getattr(tf_opt.functional, rule)(
        **{**tensors, **reals, "weight_decay": 0.5, **integers, **changes}
    )


@every_rule
def test_rule_takes_what_tensorflow_makes_tensors_of(rule: str) -> None:
    slots, reals, integers = ARGUMENTS[rule]
    expected = _call(rule)
    names = ["variable", "gradient", *slots]
    tensors = {name: [1.0, 2.0 + i] for i, name in enumerate(names)}
    reals = {**reals, "weight_decay": 0.5}
    for make in (list, tf.Variable, keras.Variable, np.float32):
        made = {name: make(value) for name, value in tensors.items()}
        _assert_same(_call(rule, **made), expected)
    # What has no type yet gets the variable's, or that of its slots.
    for dtype in (tf.float32, tf.bfloat16):
        made = {name: np.array(value) for name, value in tensors.items()}
        made["variable"] = tf.constant(tensors["variable"], dtype)
        result = _call(rule, **made)
        assert result.variable.dtype == dtype
        assert {slot.dtype for slot in result[1 : 1 + len(slots)]} == {
            tf.float32
        }
    for make in (
        np.float16,
        np.array,
        tf.constant,
        tf.Variable,
        keras.Variable,
    ):
        made = {name: make(value) for name, value in reals.items()}
        _assert_same(_call(rule, **made), expected)
    for make in (np.uint8, np.array, tf.constant, tf.Variable):
        made = {name: make(value) for name, value in integers.items()}
        _assert_same(_call(rule, **made), expected)


def _assert_same(
    result: tuple[tf.Tensor, ...], expected: tuple[tf.Tensor, ...]
) -> None:
    for ours, theirs in zip(result, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


NO_NUMBER = ["0.9", None, True, 0.5j, object(), tf.constant(True)]
NO_INTEGER = ["3", None, True, 3.0, 1.5, np.float32(3), tf.constant(3.0)]
OUT_OF_RANGE = {
    "step": ([0, -1, np.int64(0)], ">= 1"),
    "seen_batches": ([0], ">= 1"),
    "beta_1": ([1.0, -0.5, np.nan, 2], r"in \[0, 1\)"),
    "beta_2": ([1, np.float32(-0.5)], r"in \[0, 1\)"),
    "epsilon": ([-1e-8], ">= 0"),
    "momentum_decay": ([-1], ">= 0"),
    "lambd": ([-1], ">= 0"),
    "t0": ([-1], ">= 0"),
}


@every_rule
def test_rule_names_a_wrong_number(rule: str) -> None:
    _, reals, integers = ARGUMENTS[rule]
    for name in (*reals, "weight_decay"):
        # Without eta the step size is the learning rate.
        for value in [x for x in NO_NUMBER if name != "eta" or x is not None]:
            with pytest.raises(ValueError, match=f"`{name}` must be a number"):
                _call(rule, **{name: value})
    for name in integers:
        for value in NO_INTEGER:
            with pytest.raises(ValueError, match=f"`{name}` must be an int"):
                _call(rule, **{name: value})
    for name in (*reals, "weight_decay", *integers):
        # It would broadcast silently.
        with pytest.raises(ValueError, match=rf"`{name}` .* scalar.*\[2\]"):
            _call(rule, **{name: tf.constant([1, 2])})
        values, expected = OUT_OF_RANGE.get(name, ([], ""))
        for value in values:
            message = f"`{name}` must be {expected}, got {value}"
            with pytest.raises(ValueError, match=message):
                _call(rule, **{name: value})
    for name in ("decoupled_weight_decay", "maximize"):
        with pytest.raises(ValueError, match=f"`{name}` must be True or False"):
            _call(rule, **{name: "no"})


@every_rule
def test_rule_names_what_is_no_tensor(rule: str) -> None:
    for name in ("gradient", *ARGUMENTS[rule][0]):
        wrong = ["two", [[1.0], [1.0, 2.0]], np.array([1j, 2])]
        for value in wrong if name == "v_max" else [*wrong, None]:
            with pytest.raises(
                ValueError, match=f"`{name}` must be a tensor of float32"
            ):
                _call(rule, **{name: value})
    for value in ([1, 2], "two", tf.constant([True, False])):
        with pytest.raises(ValueError, match="`variable` must be floating"):
            _call(rule, variable=value)
    with pytest.raises(ValueError, match="`variable` must be a tensor"):
        _call(rule, variable=None)
