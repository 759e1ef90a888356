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

    Validation, `model.evaluate` and `model.predict` use the average. In `fit`
    it then stays in place until the next batch or epoch begins, and from the
    end of an epoch without validation, too. So all callbacks that save, restore
    or score a model between epochs see the weights that were validated,
    wherever they are in the list. (Without validation, list this callback
    before them.) After `fit` the model has the average. The next `fit` with
    this callback continues from the trained weights, bit for bit.

    If other code sets weights while the average is in place, the model keeps
    them. `keras.callbacks.EarlyStopping(restore_best_weights=True)` does so:
    the model evaluates to the best epoch's score. The optimizer then continues
    from these weights, which are also the start of the averages.

    A model with its average in place is ready to use, and its file still
    contains the trained weights. A `fit` with this callback restores them, and
    so does `optimizer.swap_out_average()`. A `fit` without it raises an error.

    `keras.callbacks.SwapEMAWeights` also swaps moving averages, but it adds and
    subtracts. This callback restores the weights bit for bit, supports 16-bit
    variables, and records in saved models that the average is in place.

    Args:
        swap_on_epoch: Changes nothing: the average is always in place between
            epochs. It is accepted because `keras.callbacks.SwapEMAWeights` has
            it.

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
        # which to swap it out: "fit", "test" or "predict".
        self._until: str | None = None
        # Whether `fit` runs, and whether what begins isn't its validation.
        self._is_in_fit = self._is_alone = False

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

    def _leaves_average(self, leaves: bool) -> None:
        # Each `fit` has its own, and this one may be interrupted.
        history = getattr(self.model, "history", None)
        for optimizer in self._optimizers():
            optimizer._is_swapped_after_fit = lambda: (
                leaves and getattr(self.model, "history", None) is history
            )

    def set_model(self, model: keras.Model) -> None:
        """Sets the model; `fit` doesn't call this again for its validation."""
        super().set_model(model)
        self._is_alone = True

    def on_train_begin(self, logs: Any = None) -> None:
        """Expects epochs, or that `fit` is called for none."""
        self._is_in_fit, self._is_alone = True, False
        self._leaves_average(True)

    def on_train_end(self, logs: Any = None) -> None:
        """Leaves the average in place."""
        self._is_in_fit = False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Restores the weights, even if the user swapped the average in."""
        self._leaves_average(False)
        self._swap_out()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Swaps the average in, unless validation did."""
        self._leaves_average(True)
        self._swap_in("fit")

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Restores the weights if another callback has evaluated."""
        if self._until:
            self._swap_out()

    def on_test_begin(self, logs: Any = None) -> None:
        """Swaps the average in."""
        self._begin("test")

    def on_test_end(self, logs: Any = None) -> None:
        """Restores the weights, except in `fit`."""
        self._end("test")

    def on_predict_begin(self, logs: Any = None) -> None:
        """Swaps the average in."""
        self._begin("predict")

    def on_predict_end(self, logs: Any = None) -> None:
        """Restores the weights."""
        self._end("predict")

    def _begin(self, phase: str) -> None:
        is_validation = self._is_in_fit and not self._is_alone
        self._is_alone = False
        self._swap_in("fit" if is_validation else phase)

    def _end(self, phase: str) -> None:
        if self._until == phase:
            self._swap_out()
