"""Derivatives of a step beside finite ones, of whole trainings PyTorch's."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from registry import RULES, slow
from small_model import assert_close
from torch_trajectory import float64_scalars

functional = tf_opt.functional

Arrays = dict[str, Any]
Tensors = dict[str, tf.Tensor]


def _step_arguments() -> dict[str, tuple[str, Callable, Arrays]]:
    """Each rule in all its modes, at a point near which it is smooth.

    The last element never had a gradient: there a root has no derivative.
    """
    arrays: Arrays = {
        "variable": [0.7, -1.2, 0.0],
        "gradient": [0.3, 0.8, 0.0],
        "learning_rate": 0.3,
        "weight_decay": 0.1,
        "m": [0.2, -0.4, 0.0],
        "v": [0.09, 0.25, 0.0],
        # Once above the new v, once below.
        "v_max": [1.0, 0.01, 0.0],
        "beta_1": 0.8,
        "beta_2": 0.7,
        "epsilon": 0.2,
        "accumulated_delta_var": [0.2, 0.05, 0.3],
        "u": [0.9, 0.4, 0.3],
        "linear": [0.9, -1.2, 0.5],
        "learning_rate_power": -0.7,
        "momentum_product": 0.4,
        "warmup_steps": 9.0,
        "learning_rate_max": 0.1,
        "weight_sum": 2.5,
        "y": [0.2, -0.3, 0.4],
        "ax": [0.5, -1.0, 0.1],
    }
    # Integers, and what only compares with one.
    whole = {"step": 4, "seen_batches": 4, "t0": 1}
    l2 = {"decoupled_weight_decay": False, "maximize": True}
    found = {}
    for class_name, under_test in RULES.items():
        spec = under_test.spec
        rule = getattr(functional, spec.function.__name__)
        slots = {slot.name: [0.5, 0.1, 0.3] for slot in spec.slots}
        numbers = {x.name: 0.3 for x in spec.numbers if x.in_rule}
        own = {
            key: np.array(arrays.get(key, value))
            for key, value in {**arrays, **slots, **numbers}.items()
            if key in inspect.signature(rule).parameters and key not in whole
        }
        optional = {
            name
            for slot in spec.slots
            if slot.needed_by
            for name in (slot.name, slot.needed_by)
        }
        plain = {key: x for key, x in own.items() if key not in optional}
        fixed = {key: x for key, x in whole.items() if key in numbers}
        for mode in ({}, l2, *({mode: True} for mode in spec.modes)):
            bound = functools.partial(rule, **fixed, **mode)
            key = ", ".join([spec.function.__name__, *mode])
            found[key] = class_name, bound, plain
            if optional:
                found[f"{key}, all slots"] = class_name, bound, own
    return found


STEPS = _step_arguments()
LAST = {class_name: name for name, (class_name, *_) in STEPS.items()}.values()


def _gradient(loss: Callable[[Any], tf.Tensor], at: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(at)
        value = loss(at)
    return tape.gradient(value, at, unconnected_gradients="zero")


def _loss_of(rule: Callable) -> Callable[[Tensors], tf.Tensor]:
    """A number in which every element of every output counts differently."""

    def loss(at: Tensors) -> tf.Tensor:
        generator = np.random.default_rng(0)
        # The square, so that what a rule is linear in has a second derivative.
        return tf.add_n(
            [
                tf.reduce_sum(generator.normal(size=output.shape) * output**2)
                for output in rule(**at)
                if output is not None
            ]
        )

    return loss


def _finite_differences(
    loss: Callable[[Tensors], tf.Tensor], arrays: Arrays, name: str, h: float
) -> np.ndarray:
    """Central ones, one element of one argument at a time."""
    derivative = np.zeros_like(arrays[name])
    for index in np.ndindex(derivative.shape):
        above, below = (
            {key: array.copy() for key, array in arrays.items()}
            for _ in range(2)
        )
        above[name][index] += h
        below[name][index] -= h
        derivative[index] = (loss(above) - loss(below)) / (2 * h)
    return derivative


@pytest.mark.parametrize(
    ("name", "compiled"),
    [
        # The last of a rule has all slots.
        (pytest.param if name in LAST else slow)(name, i % 2 == 0)
        for i, name in enumerate(STEPS)
    ],
)
def test_derivative_of_a_step_equals_finite_differences(name, compiled):
    class_name, rule, arrays = STEPS[name]
    reference = RULES[class_name].reference
    flat = getattr(reference, "FLAT", ())
    jumps = getattr(reference, "JUMPS_AT_ZERO", False)
    loss = _loss_of(rule)
    derivatives = tf.function(
        functools.partial(_gradient, loss), jit_compile=compiled
    )
    actual = derivatives({key: tf.constant(x) for key, x in arrays.items()})
    for key in arrays:
        found = actual[key].numpy()
        assert np.all(np.isfinite(found)), key
        # Truncation is h^2 where smooth, rounding 1e-16 / h.
        expected = _finite_differences(loss, arrays, key, h=1e-6)
        smooth = found, expected
        if found.ndim:
            smooth = found[:2], expected[:2]
        assert np.any(expected != 0) or key in flat
        np.testing.assert_allclose(*smooth, rtol=1e-6, atol=1e-8, err_msg=key)
        # Below 0 there is no root to take.
        if found.ndim and key not in ("v", "v_max") and not jumps:
            # At the kink that a root has at 0 truncation is h / epsilon.
            expected = _finite_differences(loss, arrays, key, h=1e-7)
            np.testing.assert_allclose(
                found, expected, rtol=1e-5, atol=1e-7, err_msg=key
            )


@pytest.mark.parametrize("compiled", [False, True])
def test_derivatives_without_any_gradient_so_far_are_finite(compiled):
    zero = tf.zeros(2, tf.float64)

    def end(gradient: tf.Tensor) -> tf.Tensor:
        state = dict.fromkeys(("variable", "m", "v"), zero)
        return functional.adam(
            **state, gradient=gradient, step=1, learning_rate=1.0
        ).variable

    def derivatives(gradient: tf.Tensor) -> tuple[tf.Tensor, ...]:
        with tf.autodiff.ForwardAccumulator(
            gradient, tf.ones_like(gradient)
        ) as accumulator:
            forward = end(gradient)
        reverse = [end]
        for _ in range(3):
            reverse.append(functools.partial(_gradient, reverse[-1]))
        return accumulator.jvp(forward), *(f(gradient) for f in reverse[1:])

    if compiled:
        derivatives = tf.function(derivatives, jit_compile=True)
    forward, reverse, second, third = derivatives(tf.zeros(2, tf.float64))
    # Of the numerator alone, over epsilon.
    np.testing.assert_allclose(forward, -1 / 1e-8, rtol=1e-12)
    np.testing.assert_allclose(reverse, -1 / 1e-8, rtol=1e-12)
    np.testing.assert_array_equal(second, 0)
    np.testing.assert_array_equal(third, 0)


# A training whose loss PyTorch and TensorFlow compute in the same words.
MATRIX = np.random.default_rng(2).normal(size=(4, 4))
START = np.array([0.7, -1.2, 0.4, 0.9])
TRAINING_STEPS = 6

# By PyTorch's optimizer: our rule, its arguments, and those that PyTorch can
# differentiate.
_BETAS = {"beta_1": 0.8, "beta_2": 0.7}
TRAININGS = {
    "Adam, AMSGrad, L2, maximize": (
        functional.adam,
        {"amsgrad": True, "maximize": True, "decoupled_weight_decay": False},
        ["learning_rate", *_BETAS, "weight_decay"],
    ),
    "AdamW": (functional.adam, {}, ["learning_rate", *_BETAS, "weight_decay"]),
    "NAdam": (functional.nadam, _BETAS, ["learning_rate"]),
    "ASGD": (functional.averaged_sgd, {"learning_rate": 0.05, "t0": 2.0}, []),
}
HYPERPARAMETERS = {"learning_rate": 0.05, **_BETAS, "weight_decay": 0.1}


def _ours(name: str, while_loop: bool) -> list[Any]:
    """The gradient of a training's end, and a Hessian-vector product."""
    rule, options, differentiable = TRAININGS[name]
    options = {**options, "while_loop": while_loop}
    if options.pop("amsgrad", False):
        options["state"] = {
            name: np.zeros_like(START) for name in ("m", "v", "v_max")
        }

    def loss(w: tf.Tensor, iteration: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.cos(tf.linalg.matvec(MATRIX, w)) + w**2 / 2)

    def end(at: Tensors) -> tf.Tensor:
        at = dict(at)
        result = functional.unroll(
            rule, loss, at.pop("start"), TRAINING_STEPS, **{**options, **at}
        )
        return tf.reduce_sum(result.variables**3)

    def slope(at: Tensors) -> tf.Tensor:
        return tf.add_n(list(map(tf.reduce_sum, _gradient(end, at).values())))

    def derivatives(at: Tensors) -> tuple[Tensors, Tensors]:
        return _gradient(end, at), _gradient(slope, at)

    if while_loop:
        derivatives = tf.function(derivatives, autograph=False)
    at = {key: HYPERPARAMETERS[key] for key in differentiable}
    at = {"start": START, **at}
    first, second = derivatives(
        {key: tf.constant(value, tf.float64) for key, value in at.items()}
    )
    return [each[key] for each in (first, second) for key in at]


def _torchs(name: str) -> list[Any]:
    torch = pytest.importorskip("torch")
    _, options, differentiable = TRAININGS[name]
    matrix = torch.tensor(MATRIX)
    at = {
        key: torch.tensor(value, dtype=torch.float64, requires_grad=True)
        for key, value in {"start": START, **HYPERPARAMETERS}.items()
        if key == "start" or key in differentiable
    }
    own = ("amsgrad", "maximize", "t0")
    arguments = {key: x for key, x in options.items() if key in own}
    arguments["lr"] = at.get("learning_rate", 0.05)
    arguments["weight_decay"] = at.get("weight_decay", 0.0)
    if "t0" not in options:
        arguments["betas"] = (at.get("beta_1", 0.8), at.get("beta_2", 0.7))
    w = at["start"].clone()
    optimizer = getattr(torch.optim, name.split(",")[0])(
        [w], **arguments, differentiable=True, foreach=False
    )
    with float64_scalars():
        for _ in range(TRAINING_STEPS):
            # A step writes into w, and some write into state that the
            # derivative of the step before needs.
            point = w.clone()
            state = optimizer.state[w]
            state.update({key: state[key].clone() for key in state})
            loss = (torch.cos(matrix @ point) + point**2 / 2).sum()
            (w.grad,) = torch.autograd.grad(loss, point, create_graph=True)
            optimizer.step()
    end = (w**3).sum()
    first = torch.autograd.grad(end, list(at.values()), create_graph=True)
    second = torch.autograd.grad(
        sum(gradient.sum() for gradient in first), list(at.values())
    )
    return [x.detach().numpy() for x in (*first, *second)]


@pytest.mark.parametrize(
    ("name", "while_loop"),
    [
        *((name, False) for name in TRAININGS),
        *(slow(name, True) for name in TRAININGS if name != "NAdam"),
    ],
)
def test_derivatives_through_a_training_equal_those_of_torch(name, while_loop):
    expected = _torchs(name)
    assert all(np.all(value != 0) for value in expected)
    assert_close(_ours(name, while_loop), expected, rtol=1e-9, atol=1e-11)
