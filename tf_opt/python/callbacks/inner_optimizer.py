"""Optimizers inside Keras' `LossScaleOptimizer` and `MultiOptimizer`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras


def inner_optimizers(
    callback: keras.callbacks.Callback,
    fits: Callable[[keras.optimizers.Optimizer], bool],
    needed: str,
) -> list[Any]:
    """Returns the optimizers that update a model's variables.

    Args:
        callback: A callback of the model.
        fits: Whether the callback can use an optimizer.
        needed: The description of such an optimizer, for the error.

    Raises:
        ValueError: If the callback can't use one of the optimizers.
    """
    optimizer = callback.model.optimizer
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    optimizers = getattr(optimizer, "optimizers", [optimizer])
    for optimizer in optimizers:
        if not fits(optimizer):
            raise ValueError(
                f"{type(callback).__name__} needs a model compiled with "
                f"{needed}. Received: {optimizer}"
            )
    return list(optimizers)
