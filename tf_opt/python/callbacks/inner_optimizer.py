"""The optimizers behind Keras' `LossScaleOptimizer` and `MultiOptimizer`."""

from __future__ import annotations

from typing import TypeVar

import keras

Optimizer = TypeVar("Optimizer", bound=keras.optimizers.Optimizer)


def inner_optimizer(
    model: keras.Model, expected: type[Optimizer], callback: str
) -> Optimizer:
    """Returns the model's optimizer.

    Args:
        model: A compiled model.
        expected: What the optimizer must be.
        callback: Who needs it.

    Raises:
        ValueError: If the model's optimizer is another one, or several.
    """
    called = f"tf_opt.{expected.__name__}"
    optimizers = inner_optimizers(model, expected, callback, called)
    if len(optimizers) != 1:
        raise ValueError(
            f"{callback} needs a model compiled with one {called}. "
            f"Received: {optimizers}"
        )
    return optimizers[0]


def inner_optimizers(
    model: keras.Model,
    expected: type[Optimizer],
    callback: str,
    called: str,
) -> list[Optimizer]:
    """Returns the optimizers that do the steps of the model's.

    Args:
        model: A compiled model.
        expected: What each of them must be.
        callback: Who needs them.
        called: What an error calls them.

    Raises:
        ValueError: If one of them is another one.
    """
    optimizer = model.optimizer
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    optimizers = getattr(optimizer, "optimizers", [optimizer])
    for optimizer in optimizers:
        if not isinstance(optimizer, expected):
            raise ValueError(
                f"{callback} needs a model compiled with {called}. "
                f"Received: {optimizer}"
            )
    return list(optimizers)
