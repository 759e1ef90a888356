"""Evaluation and saving with averaged weights."""

from __future__ import annotations

from typing import Any

import keras

from tf_opt.python import keras_internals
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer


class SwapAveragedWeights(keras.callbacks.Callback):
    """Swaps averaged weights in for evaluation.

    The averages are those of `tf_opt.AveragedSGD` or
    `tf_opt.ScheduleFreeAdamW`, or the moving averages of any other tf_opt
    optimizer with `use_ema=True`. The optimizer may be inside a
    `LossScaleOptimizer`. Keras' `MultiOptimizer` works too, if each optimizer
    inside it has an average.

    Validation, `model.evaluate` and `model.predict` use the average. Right
    afterwards the trained weights return, and training continues with them.

    With `swap_on_epoch`, the average is also in place from the end of an epoch
    to the beginning of the next one. Callbacks after this one in the list see
    it: `keras.callbacks.ModelCheckpoint` saves the average, and
    `keras.callbacks.EarlyStopping(restore_best_weights=True)` restores it.
    Otherwise the model has the trained weights after `fit`; call
    `optimizer.swap_in_average()` for the average. (With `use_ema=True` the
    model has the moving average after `fit`, as in Keras. With
    `ScheduleFreeAdamW` it has the average, too, and the next `fit` with this
    callback continues from the trained weights.)

    The average may be in place at other times, too: after an error during an
    evaluation, or in a model that was saved with it. Such a model is ready to
    use and still contains the trained weights. A `fit` with this callback
    restores them, and so does `optimizer.swap_out_average()`. A `fit` without
    it raises an error.

    `keras.callbacks.SwapEMAWeights` also swaps moving averages, but it adds and
    subtracts. This callback restores the weights bit for bit, supports 16-bit
    variables, and records in saved models that the average is in place.

    Args:
        swap_on_epoch: Whether to swap between epochs as well.

    Raises:
        ValueError: In `fit`, `evaluate` or `predict`, if the model's optimizer
            isn't one of tf_opt's or keeps no averages.

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
        # If this callback has swapped the average in, the phase at the end of
        # which to swap it out: "epoch", "test" or "predict".
        self._until: str | None = None

    def _optimizers(self) -> list[FusedOptimizer]:
        """Returns the optimizers that update the model's variables."""
        optimizers = keras_internals.unwrapped(self.model.optimizer)
        for optimizer in optimizers:
            if not (
                isinstance(optimizer, FusedOptimizer)
                and optimizer._has_average()
            ):
                raise ValueError(
                    "SwapAveragedWeights needs a model compiled with tf_opt."
                    "AveragedSGD or ScheduleFreeAdamW, or with another tf_opt "
                    f"optimizer that has `use_ema=True`. Received: {optimizer}"
                )
        # An optimizer without variables in a MultiOptimizer is never built.
        return [optimizer for optimizer in optimizers if optimizer.built]

    def _swap_in(self, until: str) -> None:
        for optimizer in self._optimizers():
            # The average may be in place already: between epochs, or because
            # the user swapped it in.
            if not optimizer.average_is_swapped_in:
                optimizer.swap_in_average()
                self._until = until

    def _swap_out(self) -> None:
        self._until = None
        for optimizer in self._optimizers():
            if optimizer.average_is_swapped_in:
                optimizer.swap_out_average()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Restores the weights, even if the user swapped the average in."""
        self._swap_out()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Swaps the average in, with `swap_on_epoch`."""
        for optimizer in self._optimizers():
            optimizer._is_swapped_after_fit = True
        if self.swap_on_epoch:
            self._swap_in("epoch")

    def on_train_end(self, logs: Any = None) -> None:
        """Restores the weights, or swaps in what training was for."""
        if self._until == "epoch":
            self._swap_out()
        for optimizer in self._optimizers():
            # Without epochs it may still be in place.
            is_swapped_in = optimizer.average_is_swapped_in
            if optimizer._leaves_no_average and not is_swapped_in:
                optimizer.swap_in_average()

    def on_test_begin(self, logs: Any = None) -> None:
        """Swaps the average in."""
        self._swap_in("test")

    def on_test_end(self, logs: Any = None) -> None:
        """Restores the weights."""
        if self._until == "test":
            self._swap_out()

    def on_predict_begin(self, logs: Any = None) -> None:
        """Swaps the average in."""
        self._swap_in("predict")

    def on_predict_end(self, logs: Any = None) -> None:
        """Restores the weights."""
        if self._until == "predict":
            self._swap_out()
