"""from_keras of what has more than numbers: loss scales, strategies, settings.

That the numbers go on is in test_saving.py and test_nadam.py.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

# Relative. Keras computes with these in float32, where 1 - 0.999 has five
# digits; here both have what they are told.
TOLERANCE = 1e-5
EXACT = {"beta_1": 0.75, "beta_2": 0.875}


def steps(optimizer, variables, gradients) -> list[np.ndarray]:
    """Does them and returns the variables."""
    for gradient in gradients:
        # An infinite one halves the scale and is left out.
        optimizer.apply([tf.constant(gradient, v.dtype) for v in variables])
    return [v.numpy() for v in variables]


@pytest.mark.parametrize("built", ["both", "inner", "none"])
def test_a_loss_scale_optimizer_goes_on(built):
    outcomes = []
    for continues_with in lambda optimizer: optimizer, tf_opt.from_keras:
        variable = keras.Variable([1.0, -2.0])
        optimizer = keras.optimizers.Nadam(0.125, name="own", **EXACT)
        if built == "inner":
            optimizer.build([variable])
            steps(optimizer, [variable], [[0.5, 1.0]])
        optimizer = keras.optimizers.LossScaleOptimizer(
            optimizer, initial_scale=8.0, dynamic_growth_steps=3
        )
        if built == "both":
            optimizer.build([variable])
            steps(optimizer, [variable], [[4.0, 8.0], [np.inf, 1.0]])
        optimizer = continues_with(optimizer)
        assert isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        assert optimizer.inner_optimizer.name == "own"
        if not optimizer.built:
            optimizer.build([variable])
        (value,) = steps(
            optimizer, [variable], [[3.0, -8.0], [2.0, 2.0], [1.0, np.nan]] * 2
        )
        outcomes.append(
            [value, optimizer.dynamic_scale, optimizer.step_counter]
        )
    assert type(optimizer) is tf_opt.LossScaleOptimizer
    assert isinstance(optimizer.inner_optimizer, tf_opt.NAdam)
    for ours, theirs in zip(*outcomes, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE)


def test_a_model_in_mixed_float16_trains_on():
    x = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.layers.Input((3,)),
            keras.layers.Dense(2, dtype="mixed_float16"),
        ]
    )
    model.dtype_policy = keras.DTypePolicy("mixed_float16")
    model.compile(keras.optimizers.Adam(0.01), "mse")
    model.fit(x, x[:, :2], verbose=0)
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    continued = tf_opt.from_keras(model.optimizer)
    model.compile(continued, "mse")
    assert model.optimizer is continued
    loss = model.evaluate(x, x[:, :2], verbose=0)
    model.fit(x, x[:, :2], epochs=5, verbose=0)
    assert model.evaluate(x, x[:, :2], verbose=0) < loss
    assert int(continued.iterations.numpy()) == 6


def replicated_steps(strategy, optimizer, variable, gradients) -> None:
    """Does them in all replicas."""

    @tf.function
    def step(gradient: tf.Tensor) -> None:
        # A copy of its own, as that of another replica, for the sum.
        strategy.run(
            lambda: optimizer.apply([tf.identity(gradient)], [variable])
        )

    for gradient in gradients:
        step(tf.constant(gradient))


@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
def test_outside_of_the_strategys_scope(strategy, scaled):
    outcomes = []
    for continues_with in lambda optimizer: optimizer, tf_opt.from_keras:
        with strategy.scope():
            variable = keras.Variable([1.0, -2.0])
            optimizer = keras.optimizers.Adam(0.125, amsgrad=True, **EXACT)
            if scaled:
                optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
            optimizer.build([variable])

        replicated_steps(strategy, optimizer, variable, [[3.0, 1.0]])
        optimizer = continues_with(optimizer)
        replicated_steps(
            strategy, optimizer, variable, [[1.0, -2.0], [2.0, 0.5]]
        )
        copies = strategy.experimental_local_results(variable.value)
        np.testing.assert_array_equal(copies[0], copies[1])
        outcomes.append(copies[0].numpy())
    np.testing.assert_allclose(outcomes[1], outcomes[0], rtol=TOLERANCE)


def test_inside_of_a_strategys_scope(strategy):
    new = keras.optimizers.Adam()
    built = keras.optimizers.Adam()
    built.build([keras.Variable([1.0])])
    with strategy.scope():
        continued = tf_opt.from_keras(new)
        variable = keras.Variable([1.0])
        continued.build([variable])
        with pytest.raises(ValueError, match="call it outside of that scope"):
            tf_opt.from_keras(built)
    for v in continued.variables:
        assert len(strategy.experimental_local_results(v.value)) == 2


@pytest.mark.parametrize(
    ("settings", "gradients"),
    [
        ({"clipnorm": 1.0, "use_ema": True, "ema_momentum": 0.7}, 4),
        ({"clipvalue": 0.5, "gradient_accumulation_steps": 2}, 5),
        ({"global_clipnorm": 0.3, "ema_overwrite_frequency": 2}, 4),
        ({"weight_decay": 0.25, "loss_scale_factor": 4.0}, 4),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_settings_go_along(settings, gradients):
    if "ema_overwrite_frequency" in settings:
        settings = {**settings, "use_ema": True}
    random = np.random.default_rng(3).normal(size=(2 * gradients + 1, 3))
    outcomes = []
    for continues_with in lambda optimizer: optimizer, tf_opt.from_keras:
        variable = keras.Variable([1.0, -2.0, 0.0], dtype="float64")
        optimizer = keras.optimizers.AdamW(
            keras.optimizers.schedules.ExponentialDecay(0.125, 2, 0.5),
            **EXACT,
            **settings,
        )
        optimizer.build([variable])
        steps(optimizer, [variable], random[:gradients])
        optimizer = continues_with(optimizer)
        steps(optimizer, [variable], random[gradients:])
        outcomes.append([variable, *optimizer.variables])
    for ours, theirs in zip(*outcomes, strict=True):
        np.testing.assert_allclose(
            ours.numpy(), theirs.numpy(), rtol=TOLERANCE, atol=1e-7
        )


def test_a_subclass_inside_is_refused():
    subclass = type("MyAdam", (keras.optimizers.Adam,), {})
    scaled = type("MyScale", (keras.optimizers.LossScaleOptimizer,), {})
    for optimizer in (
        keras.optimizers.LossScaleOptimizer(subclass()),
        scaled(keras.optimizers.Adam()),
    ):
        with pytest.raises(TypeError, match="must be one of keras.optimizers"):
            tf_opt.from_keras(optimizer)
