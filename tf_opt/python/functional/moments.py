"""The moving averages of the Adam family."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class Moments(NamedTuple):
    """Their decay rates, scalars in float64."""

    beta_1: tf.Tensor
    beta_2: tf.Tensor

    def update(
        self, gradient: tf.Tensor, m: tf.Tensor, v: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The new first and second moment; all tensors are real."""

        def average(beta: tf.Tensor, old: tf.Tensor, new: tf.Tensor):
            return (
                tf.cast(beta, old.dtype) * old
                + tf.cast(1 - beta, old.dtype) * new
            )

        return (
            average(self.beta_1, m, gradient),
            average(self.beta_2, v, gradient * gradient),
        )
