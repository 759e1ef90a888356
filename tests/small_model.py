"""A model that is trained the same way on one device and on another."""

from __future__ import annotations

import keras
import numpy as np


def fit(optimizer: keras.optimizers.Optimizer, **arguments) -> keras.Model:
    """Trains it from the same start on the same batches, every time.

    Args:
        optimizer: The optimizer.
        **arguments: More arguments of `compile`.

    Returns:
        The trained model.
    """
    keras.utils.set_random_seed(9)
    model = keras.Sequential(
        [
            keras.layers.Input((5,)),
            keras.layers.Dense(7, activation="tanh"),
            keras.layers.Dense(2),
        ]
    )
    model.compile(optimizer, "mse", **arguments)
    random = np.random.default_rng(3)
    x = random.standard_normal((64, 5)).astype("float32")
    model.fit(
        x, x[:, :2] ** 2, batch_size=16, epochs=3, shuffle=False, verbose=0
    )
    return model
