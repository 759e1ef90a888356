"""tf_opt's optimizers inside of Keras' `MultiOptimizer`, beside Keras' own."""

from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from small_model import assert_close, assert_same, loaded, multi, state

pytestmark = pytest.mark.core

ROWS = 8
# Every batch has every row, once: lazy, exact and Keras' updates are the same.
IDS = np.concatenate([np.arange(ROWS), np.arange(ROWS)[::-1]])
Y = np.sin(np.arange(2.0 * ROWS))[:, None]
TABLES = ".*table.*"
# Keras computes with these in float32, which represents them exactly.
EXACT = {"beta_1": 0.75, "beta_2": 0.875}
AS_IN_KERAS = {"epsilon": 1e-7, "epsilon_hat": True, **EXACT}


def keras_own() -> keras.optimizers.Optimizer:
    adam = keras.optimizers.Adam(0.05, **EXACT)
    others = keras.optimizers.AdamW(0.02, weight_decay=0.5, **EXACT)
    return multi(others, {TABLES: adam})


def ours() -> keras.optimizers.Optimizer:
    adam = tf_opt.Adam(0.05, lazy_mode=True, **AS_IN_KERAS)
    others = tf_opt.AdamW(0.02, weight_decay=0.5, **AS_IN_KERAS)
    return multi(others, {TABLES: adam})


def compiled(make: Callable, **arguments) -> keras.Model:
    keras.utils.set_random_seed(5)
    table = keras.layers.Embedding(ROWS, 3, name="table")
    dense = [keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((), dtype="int32"), table, *dense])
    model.compile(make(), "mse", **arguments)
    return model


def fit(model: keras.Model, ids=IDS, **arguments) -> keras.Model:
    how = {"batch_size": ROWS, "shuffle": False, "verbose": 0, **arguments}
    model.fit(ids, Y[: len(ids)], **how)
    return model


@pytest.mark.slow
def test_fit_is_keras_in_replicas_and_inside_xla(strategy):
    expected = state(fit(compiled(keras_own), epochs=3))
    with strategy.scope():
        replicated = compiled(ours)
    converted = compiled(lambda: tf_opt.from_keras(keras_own()))
    for model in (compiled(ours, jit_compile=True), replicated, converted):
        fit(model, epochs=3)
        assert_close(state(model), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["keras", "weights.h5", "checkpoint"])
def test_what_is_saved_trains_on(kind, tmp_path):
    model, target = (compiled(ours, run_eagerly=True) for _ in range(2))
    other = loaded(fit(model), target, kind, tmp_path)
    assert_same(state(other), state(model))
    # The tables stay lazy.
    table = other.get_weights()[0]
    for each in (model, other):
        fit(each, np.array([1, 1, 4]))
    assert_same(state(other), state(model))
    moved = (other.get_weights()[0] != table).any(axis=1)
    np.testing.assert_array_equal(moved.nonzero()[0], [1, 4])


def test_fit_with_callbacks_is_keras(tmp_path):
    models = [compiled(keras_own), compiled(ours)]
    for i, model in enumerate(models):
        rates = keras.callbacks.LearningRateScheduler(lambda epoch: 0.5**epoch)
        backup = keras.callbacks.BackupAndRestore(tmp_path / str(i))
        fit(model, epochs=3, callbacks=[rates, backup])
        for part in model.optimizer.optimizers:
            assert float(part.learning_rate) == 0.25
    assert_close(state(models[1]), state(models[0]), rtol=1e-4, atol=1e-6)
    models[1].export(tmp_path / "export", verbose=False)
    exported = tf.saved_model.load(tmp_path / "export")
    served = exported.serve(tf.constant(IDS, tf.int32))
    assert_close(served, models[1].predict(IDS, verbose=0), rtol=1e-6)
    batches = tf_opt.callbacks.ShuffledBatches(IDS, Y)
    with pytest.raises(ValueError, match="compiled with tf_opt.ASGD"):
        fit(models[1], callbacks=[batches])
