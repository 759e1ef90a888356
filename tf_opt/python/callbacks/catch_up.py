"""Embedding rows that are up to date wherever `fit` reads them."""

from __future__ import annotations

from typing import Any

import keras

from tf_opt.python.callbacks import up_to_date_reads
from tf_opt.python.optimizers.values import validation


class CatchUp(keras.callbacks.Callback):
    """Lets rows of embedding tables catch up before they are read.

    With `lazy_mode="catch_up"`, a row that waits makes up for the steps that it
    missed when it is updated next. With this callback it does so before it is
    read, too, so that training is exact training, up to rounding:

    - In a training step, the model's `keras.layers.Embedding` layers (and
      subclasses) let the rows of the batch catch up. This stays so when the
      model is trained again without the callback.
    - Before `model.evaluate`, validation and `model.predict`, and at the end of
      each epoch, all rows catch up; on request every few batches, too.

    Put it first in the list: callbacks that read weights come after it, such as
    `ModelCheckpoint`. Tables that other layers read need a call of
    `optimizer.catch_up(table, ids)` in `train_step`.

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
        for optimizer in up_to_date_reads.optimizers_of(self.model):
            optimizer.catch_up()

    def on_train_begin(self, logs: Any = None) -> None:
        """Makes training steps let rows catch up before they read them."""
        up_to_date_reads.install(self.model)

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
