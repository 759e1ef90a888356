"""Models that are trained the same way everywhere, and how to compare them."""

import pathlib
from collections.abc import Sequence

import keras
import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

# For models that are `compiled`.
X = np.random.default_rng(2).standard_normal((32, 4)).astype("float32")
Y = X[:, :2] ** 2
FIT = {"batch_size": 8, "shuffle": False, "verbose": 0}
FIT["validation_batch_size"] = len(X)


def compiled(
    optimizer: keras.optimizers.Optimizer,
    dtype: str | None = "float32",
    run_eagerly: bool = True,
) -> keras.Model:
    """A model for `X` and `Y`, with some variables in float32 in any case."""
    keras.utils.set_random_seed(5)
    model = keras.Sequential(
        [
            keras.layers.Input((4,)),
            keras.layers.Dense(8, activation="relu", dtype=dtype, name="first"),
            keras.layers.LayerNormalization(dtype="float32", name="norm"),
            keras.layers.Dense(2, dtype=dtype, name="last"),
        ],
        name="model",
    )
    model.compile(optimizer, "mse", run_eagerly=run_eagerly)
    return model


def train(model: keras.Model, epochs: int = 2) -> None:
    """Four steps an epoch, the same each time, in half the time of `fit`."""
    for _ in range(epochs):
        for batch in zip(np.split(X, 4), np.split(Y, 4), strict=True):
            model.train_on_batch(*batch)


def look_up(
    optimizer: keras.optimizers.Optimizer, table: keras.Variable, *rows: int
) -> None:
    """Takes a step on a gradient of each of these rows of a (4, 2) table."""
    for row in rows:
        values = tf.constant([[1.0, -2.0]])
        gradient = tf.IndexedSlices(values, tf.constant([row]), (4, 2))
        optimizer.apply([gradient], [table])


def fit(optimizer: keras.optimizers.Optimizer, **arguments) -> keras.Model:
    model = compiled(optimizer)
    model.compile(optimizer, "mse", **arguments)
    model.fit(X, Y, epochs=3, **FIT)
    return model


def multi(
    default: keras.optimizers.Optimizer,
    others: dict[str, keras.optimizers.Optimizer] | None = None,
) -> keras.optimizers.Optimizer:
    """A MultiOptimizer, whose others are for the paths that match."""
    if not hasattr(keras.optimizers, "MultiOptimizer"):
        pytest.skip("This Keras has no MultiOptimizer.")
    parts = keras.optimizers.OptimizerMap(default, others)
    return keras.optimizers.MultiOptimizer(parts)


def checkpoint_of(model: keras.Model) -> tf.train.Checkpoint:
    # Keras' MultiOptimizer doesn't tell TensorFlow about its parts.
    parts = list(getattr(model.optimizer, "optimizers", []))
    return tf.train.Checkpoint(
        model=model, optimizer=model.optimizer, parts=parts
    )


def loaded(
    source: keras.Model, target: keras.Model, kind: str, folder: pathlib.Path
) -> keras.Model:
    """Saves a model and loads it, into another one unless the file has all."""
    path = str(folder / f"saved.{kind}")
    if kind == "keras":
        source.save(path)
        return keras.saving.load_model(path)
    target.optimizer.build(target.trainable_variables)
    if kind == "weights.h5":
        source.save_weights(path)
        target.load_weights(path)
    else:
        written = checkpoint_of(source).save(path)
        checkpoint_of(target).restore(written).assert_existing_objects_matched()
    return target


def state(model: keras.Model) -> list[np.ndarray]:
    return [v.numpy() for v in (*model.variables, *model.optimizer.variables)]


def assert_same(
    found: Sequence[npt.ArrayLike], expected: Sequence[npt.ArrayLike]
) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def assert_close(
    found: Sequence[npt.ArrayLike],
    expected: Sequence[npt.ArrayLike],
    **tolerance: float,
) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


def assert_same_config(
    loaded: keras.optimizers.Optimizer, original: keras.optimizers.Optimizer
) -> None:
    """The same configuration, but for the paths, which loading changes."""
    configs = [loaded.get_config(), original.get_config()]
    for config, optimizer in zip(configs, (loaded, original), strict=True):
        paths = [variable.path for variable in optimizer._trainable_variables]
        if config["by_position"] is not None:
            assert config["by_position"].pop("paths") == paths
    assert configs[0] == configs[1]
