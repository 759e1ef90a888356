"""The moving average of `use_ema` in the variables' place, and back."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf

from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers import swapped
from tf_opt.python.optimizers.fused_optimizer import FusedOptimizer


class MovingAverageInPlace:
    """Swaps variables and averages, which may be of other types.

    Nothing is rounded twice: what was swapped in and out again has the bits
    that it had.
    """

    def __init__(self, optimizer: FusedOptimizer) -> None:
        self._optimizer = optimizer
        # While they are swapped in, what the variables and the averages were
        # before rounding.
        self._exact: list[tuple[tf.Tensor | None, tf.Tensor]] | None = None

    @property
    def built(self) -> bool:
        """Whether there are averages."""
        return self._optimizer.built

    @property
    def average_is_swapped_in(self) -> bool:
        """Whether the averages are in the variables' place."""
        return self._exact is not None

    def swap_in_average(self) -> None:
        """Puts the averages in the variables' place, and those in theirs."""
        self._exact = []
        for variable, average in self._pairs():
            value = tf.convert_to_tensor(variable)
            mean = tf.convert_to_tensor(average)
            self._optimizer.assign(variable, mean)
            self._optimizer.assign(average, value)
            self._exact.append((swapped.kept(value, mean.dtype), mean))

    def swap_out_average(self) -> None:
        """Brings both back."""
        for (variable, average), (value, mean) in zip(
            self._pairs(), self._exact, strict=True
        ):
            value = swapped.as_it_was(value, tf.convert_to_tensor(average))
            self._optimizer.assign(variable, value)
            self._optimizer.assign(average, mean)
        self._exact = None

    def keep_average(self) -> None:
        """Leaves the averages in place, and as what they are: averages."""
        for (_, average), (_, mean) in zip(
            self._pairs(), self._exact, strict=True
        ):
            self._optimizer.assign(average, mean)
        self._exact = None

    def _pairs(self) -> Iterator[tuple[Variable, Variable]]:
        optimizer = self._optimizer
        averages = optimizer._around_the_rule()["averages"]
        for variable, average in zip(
            optimizer._trainable_variables, averages, strict=True
        ):
            if average is not None:
                yield variable, average
