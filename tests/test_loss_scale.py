"""`LossScaleOptimizer`, and steps in mixed_float16."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from small_model import assert_same

pytestmark = [pytest.mark.core, pytest.mark.kernels]


def _variables(*values: list[float]) -> list[keras.Variable]:
    return [keras.Variable(value) for value in values]


@pytest.mark.parametrize("inner", [tf_opt.Adam, keras.optimizers.Adam])
def test_wrong_arguments_of_loss_scaling(inner):
    for name in ("initial_scale", "dynamic_growth_steps"):
        for value in (0, np.inf, "x"):
            with pytest.raises(ValueError, match=f"`{name}`"):
                tf_opt.LossScaleOptimizer(inner(), **{name: value})
    with pytest.raises(TypeError, match="`inner_optimizer`"):
        tf_opt.LossScaleOptimizer("adam")
    with pytest.raises(ValueError, match=r"call `optimizer\.build\("):
        tf_opt.LossScaleOptimizer(inner()).apply([tf.constant(1.0)])


def test_mixed_float16_leaves_our_loss_scaling_and_saves_it(tmp_path):
    random = np.random.default_rng(5)
    x = random.normal(size=(64, 4)).astype(np.float32)
    y = x.sum(axis=1, keepdims=True) ** 2
    keras.config.set_dtype_policy("mixed_float16")
    try:
        first = keras.layers.Dense(8, activation="relu")
        last = keras.layers.Dense(1, dtype="float32")
        model = keras.Sequential([keras.Input((4,)), first, last])
        optimizer = tf_opt.LossScaleOptimizer(tf_opt.AdamW(0.01))
        model.compile(optimizer, "mse", run_eagerly=True)
        assert model.optimizer is optimizer
        history = model.fit(x, y, epochs=5, batch_size=16, verbose=0).history
        assert history["loss"][-1] < history["loss"][0]
        inner = optimizer.inner_optimizer.implementation_in_use
        assert optimizer.implementation_in_use == inner is not None
        assert optimizer.inner_optimizer.implementation_in_use == "custom_op"
        model.save(tmp_path / "model.keras")
        loaded = keras.saving.load_model(tmp_path / "model.keras")
        assert type(loaded.optimizer) is tf_opt.LossScaleOptimizer
        assert_same(
            loaded.optimizer.variables,
            optimizer.variables,
        )
        loaded.fit(x, y, verbose=0)
    finally:
        keras.config.set_dtype_policy("float32")


def test_loss_scaling_around_another_optimizer_is_keras_own():
    (variable,) = variables = _variables([1.0])
    optimizer = tf_opt.LossScaleOptimizer(keras.optimizers.SGD(1.0), 4.0)
    assert optimizer.implementation_in_use is None
    optimizer.apply([tf.constant([4.0])], variables)
    assert variable.numpy().item() == 0
    optimizer.apply([tf.constant([np.inf])], variables)
    assert variable.numpy().item() == 0
    assert float(optimizer.dynamic_scale) == 2


@pytest.mark.parametrize("scales_loss", [False, True])
def test_steps_with_float8_variables_are_not_skipped(scales_loss):
    variables = _variables([1.0], [2.0])
    variables[1].overwrite_with_gradient = True
    optimizer = tf_opt.Adam(0.1, skip_nonfinite=not scales_loss)
    if scales_loss:
        optimizer = tf_opt.LossScaleOptimizer(optimizer)
    with pytest.raises(ValueError, match="keras.optimizers.LossScaleOptimizer"):
        optimizer.apply([tf.constant([1.0]), tf.constant([3.0])], variables)
    assert [v.numpy().item() for v in variables] == [1, 2]
