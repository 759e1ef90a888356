"""What the `model.fit` that is running goes through.

Keras tells an optimizer nothing about `fit`, so this looks at the callers: for
Keras' `fit`, with its public arguments and its iterator. Where there is none,
or another Keras names things otherwise, nothing is found.
"""

from __future__ import annotations

import sys
import types
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
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "fit":
            arguments = frame.f_locals
            model = arguments.get("self")
            if isinstance(model, keras.Model) and "epoch_iterator" in arguments:
                own = getattr(model, "optimizer", None)
                own = getattr(own, "inner_optimizer", own)
                if own is not optimizer:
                    return None
                # The number of batches is a tensor to those who trace.
                with tf.init_scope():
                    return _read(arguments)
        frame = frame.f_back
    return None


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
