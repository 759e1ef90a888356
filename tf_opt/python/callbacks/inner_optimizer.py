"""The optimizer behind wrappers such as Keras' `LossScaleOptimizer`."""

from __future__ import annotations

from typing import TypeVar

import keras

Optimizer = TypeVar("Optimizer", bound=keras.optimizers.Optimizer)


def inner_optimizer(
    model: keras.Model,
    expected: type[Optimizer],
    callback: str,
    called: str | None = None,
) -> Optimizer:
    """The model's optimizer.

    Args:
        model: A compiled model.
        expected: What the optimizer must be.
        callback: Who needs it.
        called: What an error calls it; by default its name in tf_opt.

    Raises:
        ValueError: If the model's optimizer is another one.
    """
    optimizer = model.optimizer
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    if not isinstance(optimizer, expected):
        raise ValueError(
            f"{callback} needs a model compiled with "
            f"{called or 'tf_opt.' + expected.__name__}. "
            f"Received: {optimizer}"
        )
    return optimizer
