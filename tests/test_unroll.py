"""`tf_opt.functional.unroll`: its numbers, its ways to run, its errors.

That derivatives through it are PyTorch's is in test_differentiable.py.
"""

from __future__ import annotations

import functools
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

import trajectory
from registry import MODES
from registry import OPTIMIZERS

functional = tf_opt.functional
unroll = functional.unroll

RULES = {
    "Adam": functional.adam,
    "NAdam": functional.nadam,
    "ASGD": functional.asgd,
    "AveragedSGD": functional.averaged_sgd,
}
# Each mode in one of the ways to run.
CASES = [
    (name, mode, list(trajectory.RUNS)[i % len(trajectory.RUNS)])
    for i, (name, mode) in enumerate(MODES)
    if name in RULES
]
SHAPE = (3, 11)
STEPS = 9


@pytest.mark.parametrize(("name", "mode", "how"), CASES)
def test_steps_are_those_of_the_reference(
    name: str, mode: str, how: str
) -> None:
    under_test = OPTIMIZERS[name]
    arguments = dict(under_test.modes[mode], learning_rate=0.01)
    gradients = np.stack(
        [trajectory.gradient(SHAPE, step) for step in range(1, STEPS + 1)]
    )
    slots = under_test.slots(arguments)
    expected = {"variable": trajectory.initial_value(SHAPE)}
    expected.update({slot: np.zeros(SHAPE) for slot in slots})
    losses = []
    for t, gradient in enumerate(gradients, start=1):
        losses.append(np.sum(gradient * expected["variable"]))
        expected = {
            **expected,
            **under_test.reference(expected, gradient, t=t, **arguments),
        }

    result = trajectory.RUNS[how](
        lambda start: unroll(
            RULES[name],
            lambda w, i: tf.reduce_sum(tf.constant(gradients)[i] * w),
            start,
            STEPS,
            **arguments,
        )
    )(tf.constant(trajectory.initial_value(SHAPE)))

    assert int(result.state["iterations"]) == STEPS
    actual = {"variable": result.variables, **result.state}
    for i, row in enumerate(actual.get("y", ())):
        actual[f"y_{i}"] = row
    np.testing.assert_allclose(result.losses, losses, rtol=1e-12)
    for key in ("variable", *slots):
        np.testing.assert_allclose(
            actual[key], expected[key], rtol=1e-11, atol=1e-13, err_msg=key
        )


def _bowl(variables: Any, iteration: tf.Tensor) -> tf.Tensor:
    """A loss that changes with the iteration, of any structure."""
    shift = tf.cast(iteration, tf.float64) / 10
    return tf.add_n(
        [
            tf.reduce_sum(tf.cosh(tf.cast(leaf, tf.float64) - shift))
            for leaf in tf.nest.flatten(variables)
        ]
    )


START = np.array([0.5, -1.5])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("rule", "options"),
    [
        (functional.adam, {"amsgrad": True, "beta_2": 0.5}),
        (functional.nadam, {}),
        (functional.asgd, {"batch_num": 3}),
        (functional.averaged_sgd, {"t0": 2}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_two_parts_are_one_whole(rule, options, compiled) -> None:
    rates = [0.3, 0.2, 0.1, 0.4, 0.5]
    run = functools.partial(
        unroll,
        rule,
        _bowl,
        weight_decay=lambda i: 0.1 / (1 + tf.cast(i, tf.float64)),
        **options,
    )

    def whole(start):
        return run(start, 5, learning_rate=rates)

    def parts(start):
        first = run(start, 2, learning_rate=rates[:2])
        return run(
            first.variables, 3, state=first.state, learning_rate=rates[2:]
        )

    if compiled:
        whole, parts = map(tf.function, (whole, parts))
    whole, parts = (f({"w": tf.constant(START)}) for f in (whole, parts))
    np.testing.assert_array_equal(whole.losses[2:], parts.losses)
    tf.nest.map_structure(
        np.testing.assert_array_equal,
        (whole.variables, whole.state),
        (parts.variables, parts.state),
    )


def test_derivatives_go_through_the_state() -> None:
    def derivative(split: bool) -> tf.Tensor:
        rates = tf.constant([0.3, 0.2, 0.1, 0.4])
        run = functools.partial(unroll, functional.nadam, _bowl)
        with tf.GradientTape() as tape:
            tape.watch(rates)
            if split:
                first = run(START, 2, learning_rate=rates[:2])
                end = run(
                    first.variables,
                    2,
                    state=first.state,
                    learning_rate=rates[2:],
                )
            else:
                end = run(START, 4, learning_rate=rates)
            value = tf.reduce_sum(end.variables**3)
        return tape.gradient(value, rates)

    np.testing.assert_allclose(derivative(True), derivative(False), rtol=1e-6)


def test_a_rate_for_each_step_is_a_function_of_the_step_or_a_schedule() -> None:
    schedule = keras.optimizers.schedules.ExponentialDecay(0.3, 1, 0.5)
    rates = [0.3 * 0.5**i for i in range(4)]
    ways = [
        rates,
        np.array(rates),
        tuple(tf.constant(rate, tf.float64) for rate in rates),
        lambda iteration: 0.3 * 0.5 ** tf.cast(iteration, tf.float64),
        schedule,
    ]
    ends = [
        unroll(functional.adam, _bowl, START, 4, learning_rate=way).variables
        for way in ways
    ]
    for end in ends[:-1]:
        np.testing.assert_allclose(end, ends[0], rtol=1e-14)
    # A schedule computes in float32.
    np.testing.assert_allclose(ends[-1], ends[0], rtol=0, atol=1e-7)
    constant = unroll(functional.adam, _bowl, START, 4, learning_rate=0.3)
    assert np.all(constant.variables != ends[0])


@pytest.mark.parametrize("how", trajectory.RUNS)
def test_any_structure_of_any_types_comes_back(how: str) -> None:
    start = {
        "list": [tf.Variable([1.0, 2.0]), keras.Variable([3.0])],
        "tuple": (np.array([[1.0]]), tf.constant(2, tf.bfloat16)),
        "complex": tf.constant([1 + 1j], tf.complex64),
    }

    def loss(variables, iteration):
        real = [variables["list"], variables["tuple"]]
        magnitudes = tf.abs(variables["complex"])
        return _bowl([real, magnitudes], iteration)

    result = trajectory.RUNS[how](
        lambda: unroll(functional.adam, loss, start, 2, learning_rate=0.1)
    )()
    tf.nest.assert_same_structure(result.variables, start)
    tf.nest.assert_same_structure(result.state["m"], start)
    for before, after in zip(
        tf.nest.flatten(start), tf.nest.flatten(result.variables), strict=True
    ):
        before = tf.convert_to_tensor(before)
        assert (after.dtype, after.shape) == (before.dtype, before.shape)
        assert np.all(after.numpy() != before.numpy())
    # It was only read.
    np.testing.assert_array_equal(start["list"][0], [1.0, 2.0])


def test_a_thousand_compiled_steps_are_traced_as_one() -> None:
    traced = []

    def loss(w, iteration):
        traced.append(iteration)
        return _bowl(w, iteration / 1000)

    @tf.function(jit_compile=True)
    def last_loss(rate):
        with tf.GradientTape() as tape:
            tape.watch(rate)
            end = unroll(
                functional.adam, loss, START, 1000, learning_rate=rate
            ).losses[-1]
        return end, tape.gradient(end, rate)

    h, rate = 1e-6, tf.constant(0.01, tf.float64)
    _, actual = last_loss(rate)
    assert len(traced) == 1
    (above, _), (below, _) = last_loss(rate + h), last_loss(rate - h)
    np.testing.assert_allclose(actual, (above - below) / (2 * h), rtol=1e-5)


def _small_model() -> keras.Model:
    keras.utils.set_random_seed(3)
    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(1),
        ]
    )


@pytest.mark.parametrize("compiled", [False, True])
def test_a_keras_model_is_trained_as_by_the_optimizer(compiled: bool) -> None:
    x = np.random.default_rng(0).normal(size=(5, 16, 4)).astype("float32")
    y = np.sum(x, -1, keepdims=True)

    unrolled = _small_model()

    def loss(weights, iteration):
        outputs, _ = unrolled.stateless_call(
            weights,
            unrolled.non_trainable_variables,
            tf.gather(x, iteration),
            training=True,
        )
        return tf.reduce_mean((outputs - tf.gather(y, iteration)) ** 2)

    def train(weights):
        return unroll(functional.adam, loss, weights, 5, learning_rate=0.1)

    before = unrolled.get_weights()
    start = [w.numpy() for w in unrolled.trainable_variables]
    end = (tf.function(train) if compiled else train)(start).variables
    for weights, as_before in zip(unrolled.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weights, as_before)

    fitted = _small_model()
    fitted.compile(tf_opt.Adam(0.1), "mse", jit_compile=False)
    fitted.fit(x.reshape(-1, 4), y.reshape(-1, 1), 16, shuffle=False, verbose=0)
    for expected, actual in zip(fitted.trainable_variables, end, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)


def _rate_derivative(dtype: tf.DType, **arguments) -> np.ndarray:
    rate = tf.constant(0.1, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(rate)
        end = unroll(
            functional.adam,
            _bowl,
            tf.constant(START, dtype),
            5,
            learning_rate=rate,
            **arguments,
        ).losses[-1]
    return tape.gradient(end, rate).numpy()


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(tf.float32, 1e-5), (tf.bfloat16, 0.05)]
)
def test_derivatives_of_fewer_bits_are_near(dtype, tolerance) -> None:
    assert _rate_derivative(dtype) == pytest.approx(
        _rate_derivative(tf.float64), rel=tolerance
    )


def test_gradients_can_be_transformed() -> None:
    def clip(gradients):
        return [tf.clip_by_value(gradients[0], -0.1, 0.1)]

    arguments = (functional.asgd, _bowl, [tf.constant(START)], 1)
    clipped = unroll(*arguments, learning_rate=1.0, transform_gradients=clip)
    np.testing.assert_allclose(clipped.variables[0], START + [-0.1, 0.1])

    def derivative(transform):
        start = tf.constant(START)
        with tf.GradientTape() as tape:
            tape.watch(start)
            end = unroll(
                functional.asgd,
                _bowl,
                start,
                2,
                learning_rate=0.1,
                transform_gradients=transform,
            ).variables
        return tape.gradient(end, start).numpy()

    # Of first order a step is a shift; of second, the curvature counts.
    np.testing.assert_array_equal(derivative(tf.stop_gradient), [1, 1])
    assert np.all(derivative(None) < 0.95)


def test_a_loss_of_some_rows_and_not_of_every_variable() -> None:
    table = tf.ones((3, 2))

    def loss(variables, iteration):
        return tf.reduce_sum(tf.gather(variables["table"], [0, 0]))

    start = {"table": table, "unused": table}
    end = unroll(functional.asgd, loss, start, 1, learning_rate=0.25).variables
    np.testing.assert_array_equal(end["table"], [[0.5, 0.5], [1, 1], [1, 1]])
    np.testing.assert_array_equal(end["unused"], table)


GOOD = {
    "rule": functional.adam,
    "loss": _bowl,
    "variables": START,
    "steps": 2,
}
STATE = unroll(**GOOD).state


@pytest.mark.core
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"rule": keras.optimizers.Adam}, ValueError, "`rule` must be one of"),
        ({"rule": ["adam"]}, ValueError, "`rule` must be one of"),
        ({"loss": lambda w, i: w}, ValueError, r"`loss` must.*shape \(2,\)"),
        ({"loss": lambda w, i: 1}, ValueError, "`loss` must .*int32"),
        ({"loss": lambda w, i: 1.0}, ValueError, "`loss` must depend on"),
        ({"loss": lambda w, i: None}, ValueError, "`loss` must be a tensor"),
        (
            {"variables": [1, 2]},
            ValueError,
            "`variables` must be floating.*int",
        ),
        ({"variables": {"w": "x"}}, ValueError, "`variables` must .*string"),
        ({"variables": []}, ValueError, "`variables` must hold"),
        ({"steps": 0}, ValueError, "`steps` must be >= 1, got 0"),
        ({"steps": 2.0}, ValueError, "`steps` must be an integer"),
        ({"steps": tf.constant(2)}, ValueError, "`steps` must be Python's"),
        ({"while_loop": 1}, ValueError, "`while_loop` must be True or False"),
        ({"amsgrad": "no"}, ValueError, "`amsgrad` must be True or False"),
        (
            {"rule": functional.nadam, "amsgrad": True},
            ValueError,
            "`amsgrad` must be False for nadam",
        ),
        ({"batch_num": 2}, ValueError, "`batch_num` must be 1 for adam"),
        (
            {"rule": functional.asgd, "batch_num": 0},
            ValueError,
            "`batch_num` must be >= 1, got 0",
        ),
        ({"momentum": 0.9}, TypeError, "adam has no hyperparameter `momentum`"),
        ({"step": 1}, TypeError, "adam has no hyperparameter `step`; it has l"),
        (
            {"learning_rate": [0.1, 0.2, 0.3]},
            ValueError,
            "`learning_rate` must be a scalar, a vector of one for each of the "
            r"2 steps.*\(3,\)",
        ),
        ({"learning_rate": "x"}, ValueError, "`learning_rate` must be a num"),
        (
            {"learning_rate": ["x", 1]},
            ValueError,
            "`learning_rate` must be a number",
        ),
        (
            {"learning_rate": lambda i: "x"},
            ValueError,
            "`learning_rate` must be a number",
        ),
        ({"beta_1": 1.5}, ValueError, "`beta_1` must be in"),
        ({"maximize": 1}, ValueError, "`maximize` must be True or False"),
        ({"state": 1}, ValueError, "`state` must hold iterations, m, v: "),
        (
            {"rule": functional.nadam, "state": STATE},
            ValueError,
            "`state` must hold iterations, m, v, momentum_product",
        ),
        (
            {"state": {**STATE, "m": [1.0]}},
            ValueError,
            r"`state\['m'\]` must have the structure",
        ),
        (
            {"state": {**STATE, "m": np.zeros(3)}},
            ValueError,
            "`m` must have the shape of `variable`",
        ),
        (
            {"state": {**STATE, "iterations": 1.0}},
            ValueError,
            r"`state\['iterations'\]` must be an integer",
        ),
        (
            {
                "rule": functional.asgd,
                "batch_num": 2,
                "state": unroll(functional.asgd, _bowl, START, 1).state,
            },
            ValueError,
            r"`state\['y'\]` must have `batch_num`, 2, rows.*\(1, 2\)",
        ),
        (
            {"transform_gradients": lambda gradient: [gradient]},
            ValueError,
            "`transform_gradients` returns must have the structure",
        ),
    ],
    # What is in `change` prints differently in each process.
    ids=lambda x: ", ".join(x) if isinstance(x, dict) else str(x),
)
def test_an_error_names_the_argument(change, error, message) -> None:
    with pytest.raises(error, match=message):
        unroll(**{**GOOD, **change})
