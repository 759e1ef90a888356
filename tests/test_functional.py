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
from op_cases import OPS
from reference.comparison import assert_is_reference_step
from registry import MODES
from registry import OPTIMIZERS
from registry import Arguments

LEARNING_RATE = 0.01
DTYPES = ["float16", "bfloat16", "float32", "float64"]

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
    [
        (*mode, DTYPES[i % 4], list(trajectory.RUNS)[i % 3])
        for i, mode in enumerate(RULE_MODES)
    ],
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


every_rule = pytest.mark.parametrize("rule", OPS)


def _numbers(rule: str) -> tuple[dict[str, float], dict[str, int]]:
    op = OPS[rule]
    return {**op.reals(op.rule), "weight_decay": 0.5}, op.integers(op.rule)


def _call(rule: str, **changes) -> tuple[tf.Tensor, ...]:
    reals, integers = _numbers(rule)
    tensors = {
        name: tf.constant([1.0, 2.0 + i])
        for i, name in enumerate(["variable", "gradient", *OPS[rule].slots])
    }
    return OPS[rule].rule(**{**tensors, **reals, **integers, **changes})


@every_rule
def test_rule_takes_what_tensorflow_makes_tensors_of(rule: str) -> None:
    slots = OPS[rule].slots
    reals, integers = _numbers(rule)
    expected = _call(rule)
    names = ["variable", "gradient", *slots]
    tensors = {name: [1.0, 2.0 + i] for i, name in enumerate(names)}
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
    reals, integers = _numbers(rule)
    for name in reals:
        # Without eta the step size is the learning rate.
        for value in [x for x in NO_NUMBER if name != "eta" or x is not None]:
            with pytest.raises(ValueError, match=f"`{name}` must be a number"):
                _call(rule, **{name: value})
    for name in integers:
        for value in NO_INTEGER:
            with pytest.raises(ValueError, match=f"`{name}` must be an int"):
                _call(rule, **{name: value})
    for name in (*reals, *integers):
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
    for name in ("gradient", *OPS[rule].slots):
        with pytest.raises(ValueError, match=rf"`{name}` must have the shape"):
            _call(rule, **{name: tf.zeros(1)})
        with pytest.raises(ValueError, match=rf"`{name}` must be float32"):
            _call(rule, **{name: tf.zeros(2, tf.float64)})
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


@pytest.mark.parametrize(
    ("rule", "scalar", "expected"),
    [
        # momentum_product * mu_3; lr / (1 + lambd * lr * t)^alpha.
        ("nadam", "momentum_product", 0.25 * 0.5 * (1 - 0.5 * 0.96**1.5)),
        ("averaged_sgd", "eta", 0.5 / (1 + 0.5 * 0.5 * 3) ** 0.5),
    ],
)
def test_rule_returns_the_scalar_that_the_next_step_takes(
    rule: str, scalar: str, expected: float
) -> None:
    value = getattr(_call(rule), scalar)
    assert value.dtype == tf.float64
    assert float(value) == pytest.approx(expected, rel=1e-14)


# ---- Measuring. ----


@pytest.mark.parametrize("dtype", [tf.complex64, tf.complex128])
def test_gradients_of_several_types_are_measured(dtype: tf.DType) -> None:
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
    ("changes", "message"),
    [
        ({"gradients": []}, "`gradients` must not be empty"),
        (
            {"accumulators": [tf.zeros(2)] * 2},
            "`accumulators` must be empty or have one tensor for each of the 1",
        ),
        (
            {"gradients": [tf.constant([1])]},
            r"`gradients\[0\]` must be floating point or complex.*int32",
        ),
        (
            {"accumulators": [tf.zeros(3)]},
            r"`accumulators\[0\]` must have the shape of `gradients\[0\]`",
        ),
        (
            {"accumulators": [tf.zeros(2, tf.float64)]},
            r"`accumulators\[0\]` must be float32, because `gradients\[0\]` is",
        ),
        ({"gradient_scale": "x"}, "`gradient_scale` must be a number"),
        ({"enabled": "no"}, "`enabled` must be a bool"),
    ],
)
def test_measuring_names_a_wrong_argument(changes, message):
    arguments = {"gradients": [tf.zeros(2)], **changes}
    with pytest.raises(ValueError, match=message):
        tf_opt.functional.measure_gradients(**arguments)
