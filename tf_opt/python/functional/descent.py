"""Direction and decay of a step: what all rules do in the same way."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional.arithmetic import Scalar


class Descent(NamedTuple):
    """How gradient and weight decay enter a step.

    Attributes:
        learning_rate: A scalar in float64.
        decoupled_weight_decay: Whether the decay shrinks the variable or adds
            to the gradient (L2).
        maximize: Whether to ascend.
    """

    learning_rate: tf.Tensor
    decoupled_weight_decay: bool
    maximize: bool

    def gradient(
        self, gradient: tf.Tensor, variable: tf.Tensor, weight_decay: Scalar
    ) -> tf.Tensor:
        """The gradient to follow downhill, with L2 decay; both are real."""
        if self.maximize:
            gradient = -gradient
        if not self.decoupled_weight_decay and _decays(weight_decay):
            weight_decay = arithmetic.float64(weight_decay)
            gradient = (
                gradient + tf.cast(weight_decay, variable.dtype) * variable
            )
        return gradient

    def keep(
        self, variable: tf.Tensor, weight_decay: Scalar, part: Scalar = 1.0
    ) -> tf.Tensor:
        """What the decays leave of a real variable before its step.

        Args:
            variable: The variable.
            weight_decay: Its weight decay; counts here if it is decoupled.
            part: What another decay leaves of it: a factor in float64.

        Returns:
            The variable times one factor, computed in float64.
        """
        if self.decoupled_weight_decay and _decays(weight_decay):
            weight_decay = arithmetic.float64(weight_decay)
            part = (1 - self.learning_rate * weight_decay) * part
        if not tf.is_tensor(part) and part == 1:
            return variable
        return tf.cast(part, variable.dtype) * variable


def _decays(weight_decay: Scalar) -> bool:
    """False where no decay is known while the step is traced."""
    return not (isinstance(weight_decay, (int, float)) and weight_decay == 0)
