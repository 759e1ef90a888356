"""Evaluates and saves with the averaged weights."""

from __future__ import annotations

from typing import Any

import keras

from tf_opt.python.callbacks.inner_optimizer import inner_optimizers
from tf_opt.python.optimizers.fused_optimizer import FusedOptimizer


class SwapAveragedWeights(keras.callbacks.Callback):
    """Puts averages in the variables' place for evaluation.

    These are `tf_opt.AveragedSGD`'s average, or of another optimizer of
    tf_opt's the moving average of `use_ema=True`. The optimizer may be inside
    of a `LossScaleOptimizer`, and several may be inside of Keras'
    `MultiOptimizer`, if each of them has an average. (For moving averages there
    is `keras.callbacks.SwapEMAWeights` as well, which adds and subtracts: this
    one brings back the same bits, takes 16-bit variables too, and what is saved
    says that the average is in place.)

    Validation, `model.evaluate` and `model.predict` see the average; training
    goes on with the weights themselves, which come back right after. With
    `swap_on_epoch` the average is also in place from the end of an epoch to
    the beginning of the next, for callbacks that come after this one in the
    list: `keras.callbacks.ModelCheckpoint` saves the average, and
    `keras.callbacks.EarlyStopping(restore_best_weights=True)` ends with it.
    Without such a one the weights after `fit` are the trained ones; for the
    average, call `optimizer.swap_in_average()`. (With `use_ema=True` they are
    the moving average, as Keras has it.)

    After an error in an evaluation the average may still be in place, as no
    callback is called then: the next epoch of a `fit` with this callback
    brings the weights back, and `optimizer.swap_out_average()` does.

    A model that was saved with the average in place is one to use, and also
    holds the weights: `model.optimizer.swap_out_average()` brings them back,
    and so does a `fit` with this callback. A `fit` without it raises an error.
    All of that also holds for a model that `keras.callbacks.ModelCheckpoint` or
    `keras.callbacks.BackupAndRestore` has saved meanwhile.

    Args:
        swap_on_epoch: Whether to swap between epochs as well.

    Example:

    >>> import keras, numpy as np, tf_opt
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> model.compile(tf_opt.AveragedSGD(0.1, t0=2), "mse")
    >>> x = np.ones((8, 1))
    >>> history = model.fit(
    ...     x, x, validation_data=(x, x), epochs=2, verbose=0,
    ...     callbacks=[tf_opt.callbacks.SwapAveragedWeights()])
    >>> sorted(history.history)
    ['loss', 'val_loss']
    """

    def __init__(self, swap_on_epoch: bool = False) -> None:
        super().__init__()
        self.swap_on_epoch = swap_on_epoch
        # At the end of what the average goes out again that this put in.
        self._until: str | None = None

    def _optimizers(self) -> list[FusedOptimizer]:
        """Those that do the steps."""
        callback = type(self).__name__
        needed = (
            "tf_opt.AveragedSGD, or with another optimizer of tf_opt's that "
            "has `use_ema=True`"
        )
        optimizers = inner_optimizers(
            self.model, FusedOptimizer, callback, needed
        )
        for optimizer in optimizers:
            if not optimizer._has_average():
                raise ValueError(
                    f"{callback} needs a model compiled with {needed}. "
                    f"Received: {optimizer}"
                )
        # A MultiOptimizer's that has no variables isn't.
        return [optimizer for optimizer in optimizers if optimizer.built]

    def _swap_in(self, until: str) -> None:
        for optimizer in self._optimizers():
            # It may be in place already: between epochs, or put in by the user.
            if not optimizer.average_is_swapped_in:
                optimizer.swap_in_average()
                self._until = until

    def _swap_out(self) -> None:
        self._until = None
        for optimizer in self._optimizers():
            if optimizer.average_is_swapped_in:
                optimizer.swap_out_average()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Brings the weights back, whoever put the average in."""
        self._swap_out()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Puts the average in, if asked to."""
        if self.swap_on_epoch:
            self._swap_in("epoch")

    def on_train_end(self, logs: Any = None) -> None:
        """Brings the weights back."""
        if self._until == "epoch":
            self._swap_out()

    def on_test_begin(self, logs: Any = None) -> None:
        """Puts the average in."""
        self._swap_in("test")

    def on_test_end(self, logs: Any = None) -> None:
        """Brings the weights back."""
        if self._until == "test":
            self._swap_out()

    def on_predict_begin(self, logs: Any = None) -> None:
        """Puts the average in."""
        self._swap_in("predict")

    def on_predict_end(self, logs: Any = None) -> None:
        """Brings the weights back."""
        if self._until == "predict":
            self._swap_out()
