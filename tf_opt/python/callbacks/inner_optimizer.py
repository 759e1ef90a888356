"""Optimizers inside Keras' `LossScaleOptimizer` and `MultiOptimizer`."""

from __future__ import annotations

from typing import TypeVar

import keras

Optimizer = TypeVar("Optimizer", bound=keras.optimizers.Optimizer)


def inner_optimizer(
    model: keras.Model, expected: type[Optimizer], callback: str
) -> Optimizer:
    """Returns the one optimizer that updates a model's variables.

    Args:
        model: A compiled model.
        expected: The class that the optimizer must have.
        callback: The name of the callback, for the error.

    Raises:
        ValueError: If the model has several optimizers or one of another class.
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
    """Returns the optimizers that update a model's variables.

    Args:
        model: A compiled model.
        expected: The class that each optimizer must have.
        callback: The name of the callback, for the error.
        called: The description of such an optimizer, for the error.

    Raises:
        ValueError: If an optimizer has another class.
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
