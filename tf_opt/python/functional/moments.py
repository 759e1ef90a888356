"""The moving averages of the Adam family."""

from __future__ import annotations

import tensorflow as tf

from tf_opt.python.functional.arithmetic import StepScalar


class Moments:
    """Update of the moments; `beta_1` and `beta_2` are scalars in float64."""

    def __init__(self, beta_1: tf.Tensor, beta_2: tf.Tensor) -> None:
        """Stores each moment's factors of the old value and the new one."""
        self._first = StepScalar(beta_1), StepScalar(1 - beta_1)
        self._second = StepScalar(beta_2), StepScalar(1 - beta_2)

    def update(
        self, gradient: tf.Tensor, m: tf.Tensor, v: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the new first and second moment; all tensors are real."""

        def average(
            rates: tuple[StepScalar, StepScalar], old: tf.Tensor, new: tf.Tensor
        ) -> tf.Tensor:
            kept, added = (rate.to(old.dtype) for rate in rates)
            return kept * old + added * new

        return (
            average(self._first, m, gradient),
            average(self._second, v, gradient * gradient),
        )
