"""What the `model.fit` that is running goes through, and the model.

Keras tells an optimizer nothing about `fit`, so this looks at the callers: for
Keras' `fit`, with its public arguments and its iterator. Where there is none,
or another Keras names things otherwise, nothing is found.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf


class RunningFit(NamedTuple):
    """The data of `fit`.

    Attributes:
        x: What it was given as `x`.
        shuffles: Whether Keras shuffles its samples or batches.
        num_batches: How many batches it is; None if that isn't known.
    """

    x: Any
    shuffles: bool
    num_batches: int | None


def of(optimizer: keras.optimizers.Optimizer) -> RunningFit | None:
    """The `fit` that this call is part of and that trains with `optimizer`."""
    for frame in _callers():
        if frame.f_code.co_name == "fit":
            arguments = frame.f_locals
            model = arguments.get("self")
            if isinstance(model, keras.Model) and "epoch_iterator" in arguments:
                if not _trains_with(model, optimizer):
                    return None
                # The number of batches is a tensor to those who trace.
                with tf.init_scope():
                    return _read(arguments)
    return None


def model_of(optimizer: keras.optimizers.Optimizer) -> keras.Model | None:
    """The model that was compiled with `optimizer`, if it calls this."""
    for frame in _callers():
        model = frame.f_locals.get("self")
        if isinstance(model, keras.Model) and _trains_with(model, optimizer):
            return model
    return None


def _callers() -> Iterator[types.FrameType]:
    frame = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _trains_with(
    model: keras.Model, optimizer: keras.optimizers.Optimizer
) -> bool:
    own = getattr(model, "optimizer", None)
    return getattr(own, "inner_optimizer", own) is optimizer


def _read(arguments: dict[str, Any]) -> RunningFit:
    iterator = arguments["epoch_iterator"]
    # With `steps_per_epoch` an epoch may be a part of the data only.
    data = getattr(iterator, "data_adapter", None)
    # Keras leaves the order of these to themselves.
    ordered = (
        tf.data.Dataset,
        tf.distribute.DistributedDataset,
        types.GeneratorType,
    )
    return RunningFit(
        x=arguments.get("x"),
        shuffles=bool(arguments.get("shuffle"))
        and not isinstance(arguments.get("x"), ordered),
        num_batches=getattr(data, "num_batches", None)
        or getattr(iterator, "num_batches", None),
    )
