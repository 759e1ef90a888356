"""What only ScheduleFreeAdamW has: weights of steps, and a computed average."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from counterparts import SCHEDULE_FREE, UNREPAIRED
from low_precision_cases import SETTINGS
from small_model import (
    FIT,
    X,
    Y,
    assert_close,
    assert_same,
    compiled,
    loaded,
    state,
    train,
)

needs_keras = pytest.mark.skipif(
    SCHEDULE_FREE is None, reason="This Keras has no ScheduleFreeAdamW."
)
BETA = 0.75


def make(**arguments) -> tf_opt.ScheduleFreeAdamW:
    return tf_opt.ScheduleFreeAdamW(0.125, BETA, **arguments)


def averages(model: keras.Model) -> list[np.ndarray]:
    pairs = zip(model.get_weights(), model.optimizer._momentums, strict=True)
    return [z + (np.float64(y) - z) / BETA for y, z in pairs]


@pytest.mark.parametrize(
    ("rates", "arguments"),
    [
        (0.5 * np.abs(np.sin(np.arange(40))), {"warmup_steps": 9}),
        ([0, 0, 0, *0.5 * 0.9 ** np.arange(37)], {"weight_lr_power": 1.5}),
        ([0, 0, 0, *0.5 * 0.9 ** np.arange(37)], {"weight_lr_power": 0.0}),
        # Weights that no number could hold.
        ([1e-30] * 20 + [0.5] * 20, {"weight_lr_power": 30.0, "r": 1.5}),
    ],
)
def test_rates_that_change_weigh_as_in_the_paper(
    rates, arguments, implementation
):
    random, start = np.random.default_rng(0), np.array([2.0, -1.0])
    variables = [keras.Variable(start, dtype="float64", name=x) for x in "ab"]
    optimizer = tf_opt.ScheduleFreeAdamW(
        implementation=implementation,
        learning_rate_multipliers={"a": 1.0, "b": 0.25},
        **arguments,
    )
    y, z, v = (np.stack([x, x]) for x in (start, start, 0 * start))
    power = arguments.get("weight_lr_power", 2.0)
    warmup, r = arguments.get("warmup_steps", 0), arguments.get("r", 0.0)
    largest = total = 0
    for t, rate in enumerate(np.float32(rates).astype(float), 1):
        gradient = random.normal(size=2)
        optimizer.learning_rate = rate
        optimizer.apply([tf.constant(gradient)] * 2, variables)
        rate *= min(1, t / warmup) if warmup else 1
        largest = max(largest, rate)
        weight = np.longdouble(t) ** r * np.longdouble(largest) ** power
        total += weight
        share = float(weight / total) if total else 0.0
        v = 0.999 * v + (1 - 0.999) * gradient**2
        d = gradient / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        rate = rate * np.array([[1.0], [0.25]])
        y = y + share * (z - y) - rate * (1 - 0.9 * (1 - share)) * d
        z = z - rate * d
    assert_close(variables, y, rtol=1e-12)
    assert_close(optimizer._momentums, z, rtol=1e-12)


def test_a_schedule_may_begin_later(implementation):
    late = keras.Variable([6.0])
    optimizer = make(implementation=implementation)
    optimizer.build([late])
    optimizer.iterations.assign(1000)
    optimizer.apply([tf.constant([0.0])])
    assert late.numpy() == [6.0]


def test_a_traced_step_may_create_the_variable():
    made, optimizer = [], make()

    @tf.function
    def step() -> None:
        # It has no value yet when the optimizer is built.
        made.extend([] if made else [keras.Variable([6.0])])
        optimizer.apply([tf.constant([1.0])], made)

    step()
    np.testing.assert_allclose(made[0].numpy(), [5.875])


@needs_keras
def test_the_numbers_of_the_documents(monkeypatch):
    monkeypatch.setattr(SCHEDULE_FREE, "update_step", UNREPAIRED)
    found = []
    for convert in (lambda x: x, tf_opt.from_keras):
        target = np.random.default_rng(0).normal(size=1000)
        variable = keras.Variable(np.zeros(1000), dtype="float64")
        optimizer = convert(SCHEDULE_FREE(0.05))
        noise = np.random.default_rng(1)
        for t in range(1, 51):
            gradient = variable.numpy() - target + noise.normal(size=1000)
            optimizer.apply([tf.constant(gradient)], [variable])
            if t in (10, 50):
                distance = np.mean((variable.numpy() - target) ** 2)
                found.append(round(distance, 3))
    assert found == [0.696, 0.186, 0.678, 0.162]


@needs_keras
def test_to_keras_before_the_first_step_has_the_weights():
    variable = keras.Variable([1.0, 2.0])
    optimizer = make(weight_lr_power=0.0, decay_in_direction=False)
    optimizer.build([variable])
    variable.assign([5.0, 6.0])
    theirs = tf_opt.to_keras(optimizer)
    assert theirs._momentums[0].numpy().tolist() == [5.0, 6.0]
    with pytest.raises(ValueError, match="`weight_lr_power` must be 0.0"):
        tf_opt.to_keras(tf_opt.ScheduleFreeAdamW())


@pytest.mark.core
@pytest.mark.filterwarnings("error:.*SwapAveraged")
def test_fit_leaves_the_average_or_warns():
    plain, model = (compiled(make(), run_eagerly=False) for _ in range(2))
    with pytest.warns(UserWarning, match="SwapAveragedWeights") as caught:
        plain.fit(X, Y, epochs=4, **FIT)
    assert sum("SwapAveraged" in str(x.message) for x in caught) == 1
    swap = tf_opt.callbacks.SwapAveragedWeights()
    for _ in range(2):
        model.fit(X, Y, epochs=2, callbacks=[swap], **FIT)
    left = model.get_weights()
    with pytest.raises(tf.errors.InvalidArgumentError, match="swap_out_averag"):
        model.fit(X, Y, **FIT)
    # Training went on, bit for bit.
    model.optimizer.swap_out_average()
    assert_same(state(model), state(plain))
    assert_close(left, averages(model), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["keras", "checkpoint"])
@pytest.mark.parametrize("masters", [False, True])
def test_a_file_with_the_average_goes_on(masters, kind, tmp_path):
    dtype = "bfloat16" if masters else "float32"
    model = compiled(make(master_weights=masters), dtype)
    train(model)
    before = state(model)
    with model.optimizer.averaged_weights():
        expected = model.get_weights()
        target = compiled(make(master_weights=masters), dtype)
        restored = loaded(model, target, kind, tmp_path)
    assert_same(state(model), before)
    assert_same(restored.get_weights(), expected)
    restored.optimizer.swap_out_average()
    # 16-bit weights are the same; what they round is as near as the others.
    found = [np.float32(x) for x in state(restored)]
    assert_close(found, map(np.float32, before), rtol=1e-6, atol=1e-7)


def test_weights_that_change_meanwhile_are_the_average():
    model = compiled(make(**SETTINGS["stochastic, state"]), "bfloat16")
    train(model)
    model.optimizer.swap_in_average()
    kernel = model.trainable_variables[0]
    others = [x.numpy() for x in model.trainable_variables[1:]]
    kernel.assign(kernel + 1)
    changed = kernel.numpy()
    model.optimizer.swap_out_average()
    assert np.abs(averages(model)[0] - np.float32(changed)).max() < 0.02
    with model.optimizer.averaged_weights():
        assert_same([x.numpy() for x in model.trainable_variables[1:]], others)


@pytest.mark.filterwarnings("error:.*SwapAveraged")
def test_there_is_no_average_with_a_beta_of_zero():
    model = compiled(tf_opt.ScheduleFreeAdamW(0.125, beta_1=0.0))
    model.fit(X, Y, **FIT)
    with pytest.raises(RuntimeError, match="no average with `beta_1=0`"):
        model.optimizer.swap_in_average()
    assert not model.optimizer.average_is_swapped_in
