"""`tf_opt.functional.unroll`: its numbers, how it runs, and its errors.

test_differentiable.py compares the derivatives through it with PyTorch's.
"""

import functools
import inspect
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

import trajectory
from registry import ALL, COMPOSED, ROW_WISE_MODES, RULES, TWO_MODES

functional = tf_opt.functional
unroll = functional.unroll

FUNCTIONS = {
    name: getattr(functional, under_test.spec.function.__name__)
    for name, under_test in (RULES | COMPOSED).items()
}
# All slots and the fewest in one of the ways to run.
CASES = [
    (name, mode, list(trajectory.RUNS)[i % 3], i % 2 == 0)
    for i, (name, mode) in enumerate(
        [*TWO_MODES, *ROW_WISE_MODES, *((name, "plain") for name in COMPOSED)]
    )
]
SHAPE = (3, 11)
STEPS = 9
START = np.array([0.5, -1.5])


@pytest.mark.parametrize(("name", "mode", "how", "while_loop"), CASES)
def test_steps_are_those_of_the_optimizer(name, mode, how, while_loop):
    under_test, rule = ALL[name], FUNCTIONS[name]
    arguments = {"weight_decay": 0.125, **under_test.modes[mode]}
    arguments |= {"learning_rate": 2.0**-7, "batch_num": 1}
    taken = inspect.signature(under_test.make).parameters
    optimizer = under_test.make(
        **{key: x for key, x in arguments.items() if key in taken},
        implementation="composed",
    )
    start = trajectory.initial_value(SHAPE)
    gradients = np.stack([trajectory.gradient(SHAPE, t) for t in range(STEPS)])
    variable = keras.Variable(start, dtype="float64", name="a")
    losses = []
    for gradient in gradients:
        losses.append(np.sum(gradient * variable.numpy()))
        optimizer.apply([tf.constant(gradient)], [variable])
    slots = under_test.find_slots(optimizer)

    state = None
    if {arguments.get("amsgrad"), arguments.get("centered")} & {True}:
        state = {slot: np.zeros(SHAPE) for slot in slots}
    if "row_wise" in arguments:
        arguments["row_wise"] = True
    first = under_test.first_arguments(arguments)
    taken = inspect.signature(rule).parameters
    result = trajectory.RUNS[how](
        lambda start: unroll(
            rule,
            lambda w, i: tf.reduce_sum(tf.constant(gradients)[i] * w),
            start,
            STEPS,
            state=state,
            while_loop=while_loop,
            **{key: x for key, x in arguments.items() if key in taken} | first,
        )
    )(tf.constant(start))
    assert int(result.state["iterations"]) == STEPS
    found = {"variable": result.variables, **result.state}
    np.testing.assert_allclose(result.losses, losses, rtol=1e-11)
    for key, expected in {"variable": [variable], **slots}.items():
        np.testing.assert_allclose(
            found["y" if key == "y_0" else key],
            expected[0].numpy(),
            rtol=1e-11,
            atol=1e-13,
            err_msg=key,
        )


def _bowl(variables: Any, iteration: tf.Tensor) -> tf.Tensor:
    """A loss that changes with the iteration, for variables of any kind."""
    shift = tf.cast(iteration, tf.float64) / 10
    leaves = [tf.abs(leaf) for leaf in tf.nest.flatten(variables)]
    return tf.add_n(
        [tf.reduce_sum(tf.cosh(tf.cast(x, tf.float64) - shift)) for x in leaves]
    )


# Rules whose state is more than slots.
@pytest.mark.parametrize(
    ("name", "compiled"), [("NAdam", True), ("ASGD", False), ("SGD", False)]
)
def test_two_calls_with_the_state_equal_one(name, compiled):
    rule = FUNCTIONS[name]
    rates = tf.constant([0.3, 0.2, 0.1, 0.4, 0.5], tf.float64)

    def train(split: bool) -> tuple:
        decay = lambda i: 0.1 / (1 + tf.cast(i, tf.float64))  # noqa: E731
        run = functools.partial(unroll, rule, _bowl, weight_decay=decay)
        start = {"w": tf.constant(START)}
        with tf.GradientTape() as tape:
            tape.watch(rates)
            if split:
                end = run(start, 2, learning_rate=rates[:2])
                end = run(
                    end.variables, 3, state=end.state, learning_rate=rates[2:]
                )
            else:
                end = run(start, 5, learning_rate=rates)
            value = tf.reduce_sum(end.variables["w"] ** 3)
        return tape.gradient(value, rates), end.losses[-3:], end.state

    run = tf.function(train) if compiled else train
    tf.nest.map_structure(
        functools.partial(np.testing.assert_allclose, rtol=1e-12),
        run(True),
        run(False),
    )


def test_a_thousand_compiled_steps_are_traced_as_one():
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


def test_ways_to_give_a_rate_for_each_step():
    def end(rate: Any) -> tf.Tensor:
        return unroll(
            functional.adam, _bowl, START, 4, learning_rate=rate
        ).variables

    expected = end(lambda i: 0.3 * 0.5 ** tf.cast(i, tf.float64))
    rates = [0.3 * 0.5**i for i in range(4)]
    schedule = keras.optimizers.schedules.ExponentialDecay(0.3, 1, 0.5)
    # The schedule computes in float32.
    for way, error in (rates, 1e-14), (np.array(rates), 0), (schedule, 1e-7):
        np.testing.assert_allclose(end(way), expected, 0, error + 1e-15)


@pytest.mark.parametrize("how", trajectory.RUNS)
def test_any_structure_of_any_types_comes_back(how):
    start = {
        "list": [tf.Variable([1.0, 2.0]), keras.Variable([3.0])],
        "tuple": (np.array([[1.0]]), tf.constant(2, tf.bfloat16)),
        "complex": tf.constant([1 + 1j], tf.complex64),
    }
    result = trajectory.RUNS[how](
        lambda: unroll(functional.adam, _bowl, start, 2, learning_rate=0.1)
    )()
    tf.nest.assert_same_structure(result.state["m"], start)
    for before, after in zip(
        tf.nest.flatten(start), tf.nest.flatten(result.variables), strict=True
    ):
        before = tf.convert_to_tensor(before)
        assert (after.dtype, after.shape) == (before.dtype, before.shape)
        assert np.all(after.numpy() != before.numpy())


def test_transformed_sparse_and_missing_gradients():
    table = tf.ones((3, 2))
    end = unroll(
        functional.asgd,
        lambda x, i: tf.reduce_sum(tf.gather(x["table"], [0, 0])),
        {"table": table, "unused": table},
        1,
        learning_rate=0.25,
        transform_gradients=lambda x: {**x, "table": x["table"] / 2},
    ).variables
    np.testing.assert_array_equal(end["table"], [[0.75] * 2, [1, 1], [1, 1]])
    np.testing.assert_array_equal(end["unused"], table)


GOOD = {"rule": functional.adam, "loss": _bowl, "variables": START, "steps": 2}
STATE = {"m": np.zeros(2), "v": np.zeros(2)}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"steps": 0}, ValueError, "`steps` must be >= 1. Received: steps=0"),
        ({"loss": lambda x, i: x}, ValueError, "must have rank 0"),
        (
            {"loss": lambda x, i: tf.constant(1.0)},
            ValueError,
            "`loss` must depend on the `variables`",
        ),
        ({"momentum": 0.9}, TypeError, "unexpected keyword .* 'momentum'"),
        ({"amsgrad": True}, TypeError, "unexpected keyword .* 'amsgrad'"),
        ({"batch_num": 2}, TypeError, "unexpected keyword .* 'batch_num'"),
        ({"learning_rate": np.ones(3)}, ValueError, r"Shapes? \(3,\)"),
        ({"learning_rate": "x"}, ValueError, "`learning_rate` must be a num"),
        ({"state": {**STATE, "m": [1.0]}}, ValueError, "same nested structure"),
        ({"state": {**STATE, "d": START}}, ValueError, "`state` must hold"),
        (
            {"rule": functional.nadam, "state": STATE},
            ValueError,
            r"`state` must hold \['m', 'v', 'momentum_product'\]",
        ),
        (
            {"transform_gradients": lambda x: [x]},
            ValueError,
            "same nested structure",
        ),
    ],
    # Functions print differently in each process.
    ids=lambda x: ", ".join(x) if isinstance(x, dict) else None,
)
def test_an_error_is_clear(change, error, message):
    with pytest.raises(error, match=message):
        unroll(**{**GOOD, **change})
