"""A model that is trained the same way everywhere, and how to compare such."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import numpy as np
import numpy.typing as npt


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


def state(model: keras.Model) -> list[np.ndarray]:
    """All of its variables and of its optimizer's."""
    return [v.numpy() for v in (*model.variables, *model.optimizer.variables)]


def assert_same(
    found: Sequence[npt.ArrayLike], expected: Sequence[npt.ArrayLike]
) -> None:
    """Compares arrays or variables, bit for bit."""
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def assert_close(
    found: Sequence[npt.ArrayLike],
    expected: Sequence[npt.ArrayLike],
    **tolerance: float,
) -> None:
    """Compares them as `numpy.testing.assert_allclose` does."""
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)
