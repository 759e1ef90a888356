"""The rules on pure tensors: values, derivatives, complex numbers, errors."""

from __future__ import annotations

import doctest
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
import tf_opt

import trajectory
from reference.adam import adam
from reference.comparison import assert_is_reference_step
from registry import OPTIMIZERS
from registry import Arguments

ADAM_MODES = OPTIMIZERS["Adam"].modes
LEARNING_RATE = 0.01

every_mode = pytest.mark.parametrize("mode", ADAM_MODES)


def _state(
    arguments: Arguments, shape: tuple[int, ...], dtype: str
) -> dict[str, tf.Tensor]:
    """A variable and slots as some steps may have left them."""
    slot_dtype = "float64" if dtype == "float64" else "float32"
    numbers = trajectory.gradient
    state = {
        "variable": tf.constant(trajectory.initial_value(shape), dtype),
        "m": tf.constant(numbers(shape, 1), slot_dtype),
        "v": tf.constant(numbers(shape, 2) ** 2, slot_dtype),
    }
    if arguments.get("amsgrad"):
        # Above v in some places, below in others.
        state["v_max"] = tf.constant(numbers(shape, 3) ** 2, slot_dtype)
    return state


@pytest.mark.core
@pytest.mark.parametrize("how", trajectory.RUNS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@every_mode
def test_adam_is_the_reference_step_and_changes_no_argument(
    mode: str, dtype: str, how: str
) -> None:
    shape = (7, 31)
    arguments = dict(ADAM_MODES[mode], learning_rate=LEARNING_RATE)
    state = _state(arguments, shape, dtype)
    before = {name: tensor.numpy().copy() for name, tensor in state.items()}
    gradient = tf.constant(trajectory.gradient(shape, 5), dtype)
    options = {k: v for k, v in arguments.items() if k != "amsgrad"}
    step = trajectory.RUNS[how](
        lambda state, gradient: tf_opt.functional.adam(
            gradient=gradient, step=6, **state, **options
        )
    )
    result = step(state, gradient)._asdict()
    if "v_max" not in state:
        assert result.pop("v_max") is None
    assert_is_reference_step(
        before,
        gradient.numpy(),
        {name: tensor.numpy() for name, tensor in result.items()},
        adam,
        t=6,
        **arguments,
    )
    for name, tensor in state.items():
        np.testing.assert_array_equal(tensor.numpy(), before[name])


def _complex(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    real, imaginary = generator.normal(size=(2, *shape))
    return (real + 1j * imaginary).astype(dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@every_mode
def test_complex_number_is_two_reals(mode: str, dtype: str) -> None:
    arguments = dict(ADAM_MODES[mode])
    names = ["variable", "m", "v"]
    if arguments.pop("amsgrad", False):
        names.append("v_max")
    shape = (3, 5)
    whole = {"variable": _complex(shape, dtype, 0)}
    whole.update({name: np.zeros(shape, dtype) for name in names[1:]})
    halves = {
        part: {name: getattr(array, part) for name, array in whole.items()}
        for part in ["real", "imag"]
    }
    for step in range(1, 6):
        gradient = _complex(shape, dtype, step)

        def next_state(state, gradient, step=step):
            result = tf_opt.functional.adam(
                gradient=gradient, step=step, **state, **arguments
            )._asdict()
            return {name: result[name].numpy() for name in names}

        whole = next_state(whole, gradient)
        for part, state in halves.items():
            halves[part] = next_state(state, getattr(gradient, part))
        for name in names:
            assert whole[name].dtype == dtype
            for part, state in halves.items():
                np.testing.assert_array_equal(
                    getattr(whole[name], part), state[name], err_msg=name
                )


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("complex64", 2e-6), ("complex128", 1e-14)]
)
@pytest.mark.parametrize("amsgrad", [False, True])
def test_complex_equals_torch(
    dtype: str, tolerance: float, amsgrad: bool
) -> None:
    torch = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.tensor(_complex((4,), dtype, 0)))
    optimizer = torch.optim.Adam(
        [parameter], lr=LEARNING_RATE, amsgrad=amsgrad, foreach=False
    )
    variable = tf.constant(_complex((4,), dtype, 0))
    slots = [tf.zeros(4, dtype)] * (3 if amsgrad else 2)
    for step in range(1, 21):
        # Shrinking, so that AMSGrad differs.
        gradient = _complex((4,), dtype, step) * np.float32(0.5) ** step
        parameter.grad = torch.tensor(gradient)
        optimizer.step()
        m, v, *v_max = slots
        variable, *slots = tf_opt.functional.adam(
            variable,
            gradient,
            m,
            v,
            *v_max,
            step=step,
            learning_rate=LEARNING_RATE,
        )
        slots = [slot for slot in slots if slot is not None]
        np.testing.assert_allclose(
            variable.numpy(), parameter.detach().numpy(), rtol=tolerance
        )


def _numeric_derivative(
    function: Callable[..., tf.Tensor],
    arguments: dict[str, np.ndarray],
    name: str,
    step: float,
) -> np.ndarray:
    """Central differences, one element of one argument at a time."""
    derivative = np.zeros_like(arguments[name])
    for index in np.ndindex(derivative.shape):
        values = []
        for sign in (1, -1):
            moved = {key: array.copy() for key, array in arguments.items()}
            moved[name][index] += sign * step
            values.append(function(**moved).numpy())
        derivative[index] = (values[0] - values[1]) / (2 * step)
    return derivative


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"decoupled_weight_decay": False, "maximize": True},
        {"epsilon_hat": True},
    ],
    ids=["algorithm_1", "l2_maximize", "epsilon_hat"],
)
def test_derivative_equals_finite_differences_also_where_v_is_zero(
    options: Arguments, amsgrad: bool, compiled: bool
) -> None:
    arguments = {
        "variable": np.array([0.7, -1.2, 0.4]),
        "gradient": np.array([0.3, 0.8, -0.5]),
        "m": np.array([0.2, -0.4, 0.1]),
        "v": np.array([0.09, 0.25, 0.04]),
        "learning_rate": np.array(0.3),
        "beta_1": np.array(0.8),
        "beta_2": np.array(0.7),
        "epsilon": np.array(0.2),
        "weight_decay": np.array(0.1),
    }
    if amsgrad:
        # Once above the new v, once below.
        arguments["v_max"] = np.array([1.0, 0.01, 0.5])
    # An element that never had a gradient; the root's derivative there is
    # infinite. L2 decay is a gradient, so the variable is 0 as well.
    slots = [name for name in ("m", "v", "v_max") if name in arguments]
    for name in ("variable", "gradient", *slots):
        arguments[name][2] = 0

    def loss(**tensors):
        result = tf_opt.functional.adam(step=3, **tensors, **options)
        outputs = [output for output in result if output is not None]
        # Every element of every output counts, each differently.
        weights = np.random.default_rng(0).normal(size=(len(outputs), 3))
        return tf.reduce_sum(weights * tf.stack(outputs))

    @tf.function(jit_compile=compiled)
    def derivatives(tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value = loss(**tensors)
        return tape.gradient(value, tensors)

    tensors = {name: tf.constant(x) for name, x in arguments.items()}
    analytic = derivatives(tensors)
    for name in arguments:
        actual = analytic[name].numpy()
        assert np.all(np.isfinite(actual)), name
        # Truncation is step^2 where smooth and, as the root has a kink at 0,
        # step / epsilon there: below 1e-6. Rounding is 1e-16 / step.
        expected = _numeric_derivative(loss, arguments, name, step=1e-7)
        if name in ("v", "v_max"):
            # Below 0 there is no root to take.
            actual, expected = actual[:2], expected[:2]
        assert np.any(expected != 0)
        np.testing.assert_allclose(
            actual, expected, rtol=1e-5, atol=1e-7, err_msg=name
        )


@pytest.mark.core
@pytest.mark.parametrize("name", ["gradient", "m", "v", "v_max"])
def test_wrong_shape_is_an_error_that_names_the_argument(name: str) -> None:
    tensors = {
        key: tf.zeros(3) for key in ("variable", "gradient", "m", "v", "v_max")
    }
    # One that would broadcast silently.
    tensors[name] = tf.zeros(1)
    with pytest.raises(
        ValueError,
        match=rf"`{name}` must have the shape of `variable`, \(3,\).*\(1,\)",
    ):
        tf_opt.functional.adam(step=1, **tensors)


@pytest.mark.core
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gradient", "float16"),
        ("m", "float32"),
        ("v", "float32"),
        ("v_max", "float32"),
    ],
)
def test_wrong_dtype_is_an_error_that_names_the_argument(
    name: str, expected: str
) -> None:
    tensors = {key: tf.zeros(3) for key in ("m", "v", "v_max")}
    tensors["variable"] = tensors["gradient"] = tf.zeros(3, tf.float16)
    tensors[name] = tf.zeros(3, tf.float64)
    with pytest.raises(
        ValueError,
        match=rf"`{name}` must be {expected} for a variable of float16.*"
        "float64",
    ):
        tf_opt.functional.adam(step=1, **tensors)


@pytest.mark.parametrize(
    "documented",
    [
        tf_opt.Adam,
        tf_opt.AdamW,
        tf_opt.build_info,
        tf_opt.from_keras,
        tf_opt.functional.adam,
        tf_opt.ops.resource_apply_adam_amsgrad,
    ],
    ids=lambda documented: documented.__name__,
)
def test_example_in_the_docstring_runs(documented: object) -> None:
    examples = [
        test
        for test in doctest.DocTestFinder(recurse=False).find(documented)
        if test.examples
    ]
    assert examples, "the docstring has no example"
    runner = doctest.DocTestRunner()
    for test in examples:
        report = []
        runner.run(test, out=report.append)
        assert not runner.failures, "".join(report)
