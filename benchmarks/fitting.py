"""Trains models by `fit`, with Keras 3 or Keras 2 (tf_keras)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import sklearn.datasets
import tensorflow as tf
import tf_opt

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

MakeOptimizer = Callable[[], keras.optimizers.Optimizer]
# Called after each step, with its loss. It ends the training by an exception.
Done = Callable[[Any], None]
# Trains until `Done` ends it.
Train = Callable[[], None]


def fit(
    model: keras.Model,
    data: tf.data.Dataset,
    make: MakeOptimizer,
    done: Done,
    loss: Any = LOSS,
    package: Any = keras,
) -> Train:
    """Compiles a model, and returns what trains it until `done` ends it."""
    optimizer = make()
    model.compile(optimizer, loss, jit_compile=False)
    callbacks = [
        package.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: done(logs["loss"])
        )
    ]
    if getattr(optimizer, "lazy_mode", False) == "catch_up":
        callbacks.insert(0, tf_opt.callbacks.CatchUp())
    # Keras 2 doesn't train without a number of steps.
    options = {"steps_per_epoch": sys.maxsize, "shuffle": False, "verbose": 0}
    return lambda: model.fit(data, callbacks=callbacks, **options)


def batches_of(*arrays: Any, size: int) -> tf.data.Dataset:
    """Returns batches of arrays, again and again."""
    data = tf.data.Dataset.from_tensor_slices(arrays)
    return data.repeat().batch(size, drop_remainder=True)


def digit_images() -> tuple[np.ndarray, np.ndarray]:
    """Returns the images that come with scikit-learn, and their digits."""
    found = sklearn.datasets.load_digits()
    return (found.images / 16).astype(np.float32), found.target
