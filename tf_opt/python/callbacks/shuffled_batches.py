"""Fixed batches in a new order every epoch, for `tf_opt.ASGD`."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python.callbacks.inner_optimizer import inner_optimizer
from tf_opt.python.optimizers.asgd import ASGD
from tf_opt.python.optimizers.values import validation


class ShuffledBatches(keras.callbacks.Callback):
    """Visits fixed batches in random order and tells `tf_opt.ASGD` which.

    `model.fit` by itself shuffles *samples*, so that no batch comes twice and
    the gradients that `ASGD` keeps belong to none. Here the samples are cut
    into batches once; every epoch visits all of them, in an order drawn anew.
    Give `fit` both the `dataset` and this object, as a callback.

    Args:
        x: Inputs: an array or tensor, or a nested structure of them, whose
            first dimension counts the samples.
        y: Targets, likewise; or None.
        sample_weight: Weights, likewise; or None. They need `y`.
        batch_size: Samples in a batch, >= 1; the last one has the rest.
        seed: An integer for the same orders again; None for others each time.

    Attributes:
        dataset: A `tf.data.Dataset` of the batches, in this epoch's order.

    Raises:
        ValueError: If an argument is out of range, or the structures differ in
            their number of samples or have none; when `fit` begins, if the
            model's optimizer is no `tf_opt.ASGD`, its `batch_num` not the
            number of batches, or it accumulates gradients: each update would
            take other batches together than in the epoch before.

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
        # A tuple's first part is the inputs: what `fit` makes of one, too.
        samples = keras.utils.pack_x_y_sample_weight(x, y, sample_weight)
        self._samples = tf.nest.map_structure(tf.convert_to_tensor, samples)
        self._batch_size = batch_size
        self._count = math.ceil(_count_samples(self._samples) / batch_size)
        self._random = np.random.default_rng(seed)
        # The dataset reads it as an epoch goes along.
        self._order = tf.Variable(
            tf.range(self._count, dtype=tf.int64), trainable=False
        )
        self.dataset = (
            tf.data.Dataset.range(self._count)
            .map(lambda place: self._batch(self._order[place]))
            .prefetch(tf.data.AUTOTUNE)
        )

    def __len__(self) -> int:
        """The number of batches: `ASGD`'s `batch_num`."""
        return self._count

    def _batch(self, index: tf.Tensor) -> Any:
        start = index * self._batch_size
        return tf.nest.map_structure(
            lambda part: part[start : start + self._batch_size], self._samples
        )

    def _optimizer(self) -> ASGD:
        return inner_optimizer(self.model, ASGD, type(self).__name__)

    def on_train_begin(self, logs: Any = None) -> None:
        """Checks that optimizer and batches fit each other."""
        optimizer = self._optimizer()
        if optimizer.gradient_accumulation_steps:
            raise ValueError(
                "ShuffledBatches can't be used with `gradient_accumulation_"
                "steps`: in every epoch an update would take other batches "
                "together. Give it the `batch_size` of an update. Received: "
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
        """Draws this epoch's order, for the dataset and for the optimizer."""
        order = self._random.permutation(self._count)
        self._order.assign(order)
        optimizer = self._optimizer()
        optimizer.build(self.model.trainable_variables)
        optimizer.batch_order = order


def _count_samples(samples: Any) -> int:
    """The first dimension that all tensors of a structure have."""
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
