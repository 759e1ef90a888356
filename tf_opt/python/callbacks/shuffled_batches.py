"""Fixed batches in a new order every epoch, for `tf_opt.ASGD`."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python.optimizers.asgd import ASGD
from tf_opt.python.optimizers.values import validation


class ShuffledBatches(keras.callbacks.Callback):
    """Visits fixed batches in random order and tells `tf_opt.ASGD` the order.

    `model.fit` shuffles *samples*: each epoch has different batches, and the
    gradients that `ASGD` stores belong to none of them. This class cuts the
    samples into batches once. Every epoch visits all batches in a new random
    order. Pass `fit` both the `dataset` and this object, as a callback.

    Args:
        x: Inputs: an array or tensor, or a nested structure of them, whose
            first dimension counts the samples.
        y: Targets, in the same form; or None.
        sample_weight: Weights, in the same form; or None. Requires `y`.
        batch_size: The number of samples in a batch, >= 1. The last batch has
            the remaining ones.
        seed: An integer, for reproducible orders; or None.

    Attributes:
        dataset: A `tf.data.Dataset` of the batches, in the current epoch's
            order.

    Raises:
        ValueError: If an argument is out of range, or the structures have no
            samples or different numbers of them. When `fit` begins: if the
            model's optimizer isn't a `tf_opt.ASGD`, its `batch_num` isn't the
            number of batches, or it accumulates gradients (each update would
            combine different batches in every epoch).

    Example:

    >>> import keras, numpy as np, tf_opt
    >>> x = np.arange(12.0)[:, None]
    >>> batches = tf_opt.callbacks.ShuffledBatches(x, 2 * x, batch_size=4)
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> model.compile(tf_opt.ASGD(0.001, batch_num=len(batches)), "mse")
    >>> history = model.fit(
    ...     batches.dataset, callbacks=[batches], epochs=2, verbose=0,
    ...     shuffle=False)  # Keras would warn that it can't shuffle batches.
    >>> len(batches)
    3
    """

    def __init__(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        batch_size: int = 32,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        validation.check_positive_integer("batch_size", batch_size)
        if y is None and sample_weight is not None:
            raise ValueError(
                "`sample_weight` must come with `y`. Received: y=None"
            )
        # `fit` unpacks a tuple in the same way: the inputs come first.
        samples = keras.utils.pack_x_y_sample_weight(x, y, sample_weight)
        self._samples = tf.nest.map_structure(tf.convert_to_tensor, samples)
        self._batch_size = batch_size
        self._count = math.ceil(_count_samples(self._samples) / batch_size)
        self._random = np.random.default_rng(seed)
        # The dataset reads this variable during an epoch.
        self._order = tf.Variable(
            tf.range(self._count, dtype=tf.int64), trainable=False
        )
        self.dataset = (
            tf.data.Dataset.range(self._count)
            .map(lambda place: self._batch(self._order[place]))
            .prefetch(tf.data.AUTOTUNE)
        )

    def __len__(self) -> int:
        """Returns the number of batches, the `batch_num` of `ASGD`."""
        return self._count

    def _batch(self, index: tf.Tensor) -> Any:
        start = index * self._batch_size
        return tf.nest.map_structure(
            lambda part: part[start : start + self._batch_size], self._samples
        )

    def _optimizer(self) -> ASGD:
        optimizer = self.model.optimizer
        # Keras' LossScaleOptimizer wraps another one.
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        if not isinstance(optimizer, ASGD):
            raise ValueError(
                "ShuffledBatches needs a model compiled with tf_opt.ASGD. "
                f"Received: {optimizer}"
            )
        return optimizer

    def on_train_begin(self, logs: Any = None) -> None:
        """Checks that the optimizer fits the batches."""
        optimizer = self._optimizer()
        if optimizer.gradient_accumulation_steps:
            raise ValueError(
                "ShuffledBatches can't be used with `gradient_accumulation_"
                "steps`: an update would combine different batches in every "
                "epoch. Use the `batch_size` of a whole update. Received: "
                "gradient_accumulation_steps="
                f"{optimizer.gradient_accumulation_steps}"
            )
        if optimizer.batch_num != self._count:
            raise ValueError(
                f"`batch_num` must be the number of batches, {self._count}. "
                f"Received: batch_num={optimizer.batch_num}"
            )
        steps = self.params.get("steps")
        if steps != self._count:
            raise ValueError(
                "`fit` must be given this object's `dataset` and go through "
                f"all of it, {self._count} steps. Received: {steps} steps"
            )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Draws the epoch's order and passes it to dataset and optimizer."""
        order = self._random.permutation(self._count)
        self._order.assign(order)
        optimizer = self._optimizer()
        optimizer.build(self.model.trainable_variables)
        optimizer.batch_order = order


def _count_samples(samples: Any) -> int:
    """Returns the number of samples that all tensors of a structure have."""
    shapes = [part.shape for part in tf.nest.flatten(samples)]
    if any(shape.rank == 0 for shape in shapes):
        raise ValueError(
            "`x`, `y` and `sample_weight` must hold arrays whose first "
            "dimension counts the samples. Received: a number"
        )
    counts = {shape[0] for shape in shapes}
    if len(counts) != 1 or 0 in counts:
        raise ValueError(
            "`x`, `y` and `sample_weight` must have the same number of "
            f"samples, at least one. Received: {sorted(counts)}"
        )
    return counts.pop()
