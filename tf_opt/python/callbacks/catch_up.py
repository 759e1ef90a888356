"""Embedding rows that are up to date for evaluation."""

from __future__ import annotations

from typing import Any

import keras

from tf_opt.python import keras_internals
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.values import validation


class CatchUp(keras.callbacks.Callback):
    """Lets rows of embedding tables catch up before they are evaluated.

    With `lazy_mode="catch_up"`, a row that waits makes up for the steps that it
    missed when it is updated next. This callback calls `optimizer.catch_up()`
    before `model.evaluate`, validation and `model.predict`, at the end of each
    epoch and, on request, every few batches, so that rows that wait are up to
    date when they are read. Put it first in the list: callbacks that read
    weights come after it, such as `ModelCheckpoint`.

    The optimizer may be inside a `LossScaleOptimizer` or Keras'
    `MultiOptimizer`. With an optimizer that has nothing to catch up, the
    callback does nothing.

    Args:
        every_n_batches: How often all rows catch up during an epoch, in
            batches. None: only at its end. It costs one pass over the tables
            each time.

    Raises:
        ValueError: If `every_n_batches` isn't an integer >= 1 or None.

    Example:

    >>> import keras, numpy as np, tf_opt
    >>> model = keras.Sequential([keras.layers.Embedding(10, 1)])
    >>> model.compile(tf_opt.Adam(0.1, lazy_mode="catch_up"), "mse")
    >>> ids, targets = np.arange(8)[:, None], np.ones((8, 1, 1))
    >>> history = model.fit(
    ...     ids, targets, validation_data=(ids, targets), verbose=0,
    ...     callbacks=[tf_opt.callbacks.CatchUp()])
    >>> sorted(history.history)
    ['loss', 'val_loss']
    """

    def __init__(self, every_n_batches: int | None = None) -> None:
        super().__init__()
        if every_n_batches is not None:
            validation.check_positive_integer(
                "every_n_batches", every_n_batches
            )
        self.every_n_batches = every_n_batches
        self._batches = 0

    def _catch_up(self) -> None:
        # A model that isn't compiled has none.
        own = getattr(self.model, "optimizer", None)
        for optimizer in keras_internals.unwrapped(own):
            if isinstance(optimizer, FusedOptimizer):
                optimizer.catch_up()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Lets all rows catch up every `every_n_batches` batches."""
        if self.every_n_batches is None:
            return
        # `batch` skips numbers with `steps_per_execution`.
        passed = batch + 1 - self._batches
        if passed >= self.every_n_batches:
            self._catch_up()
            self._batches = batch + 1

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begins to count batches."""
        self._batches = 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Lets all rows catch up."""
        self._catch_up()

    def on_test_begin(self, logs: Any = None) -> None:
        """Lets all rows catch up."""
        self._catch_up()

    def on_predict_begin(self, logs: Any = None) -> None:
        """Lets all rows catch up."""
        self._catch_up()
