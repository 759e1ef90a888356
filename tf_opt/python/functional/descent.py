"""Direction and weight decay of a step, which all rules share."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional.arithmetic import Scalar


class Descent:
    """Direction and weight decay of a step."""

    def __init__(
        self,
        learning_rate: tf.Tensor,
        decoupled_weight_decay: bool,
        maximize: bool,
        part: Scalar = 1.0,
    ) -> None:
        """Stores the settings that all variables share.

        Args:
            learning_rate: A scalar in float64.
            decoupled_weight_decay: Whether the decay shrinks the variable or
                adds to the gradient (L2).
            maximize: Whether to ascend.
            part: The factor by which another decay shrinks a variable, in
                float64.
        """
        self._learning_rate = learning_rate
        self._decoupled = decoupled_weight_decay
        self._maximize = maximize
        self._part = part
        self._once = arithmetic.OncePerGraph()

    def gradient(
        self, gradient: tf.Tensor, variable: tf.Tensor, weight_decay: Scalar
    ) -> tf.Tensor:
        """Returns the gradient to descend along, including L2 decay.

        The tensors are real.
        """
        if self._maximize:
            gradient = -gradient
        if not self._decoupled and _decays(weight_decay):
            gradient = (
                gradient + self._decay(weight_decay, variable.dtype) * variable
            )
        return gradient

    def keep(self, variable: tf.Tensor, weight_decay: Scalar) -> tf.Tensor:
        """Shrinks a real variable by the decays, before its step.

        Args:
            variable: The variable.
            weight_decay: Its weight decay; only used here if it is decoupled.

        Returns:
            The variable times one factor, computed in float64.
        """
        decays = self._decoupled and _decays(weight_decay)
        if not decays and not tf.is_tensor(self._part) and self._part == 1:
            return variable
        return self._kept(weight_decay, decays, variable.dtype) * variable

    def _decay(self, weight_decay: Scalar, dtype: tf.DType) -> tf.Tensor:
        return self._shared(
            ("decay", dtype),
            weight_decay,
            lambda: tf.cast(arithmetic.float64(weight_decay), dtype),
        )

    def _kept(
        self, weight_decay: Scalar, decays: bool, dtype: tf.DType
    ) -> tf.Tensor:
        def factor() -> tf.Tensor:
            part = self._part
            if decays:
                decay = arithmetic.float64(weight_decay)
                part = (1 - self._learning_rate * decay) * part
            return tf.cast(part, dtype)

        return self._shared(
            ("kept", dtype), weight_decay if decays else 0, factor
        )

    def _shared(
        self, key: tuple, weight_decay: Scalar, make: Callable[[], tf.Tensor]
    ) -> tf.Tensor:
        """Computes a tensor once for all variables that share a known decay."""
        if not isinstance(weight_decay, (int, float)):
            return make()
        return self._once((*key, weight_decay), make)


def _decays(weight_decay: Scalar) -> bool:
    """False if the decay is known to be 0 while the step is traced."""
    return not (isinstance(weight_decay, (int, float)) and weight_decay == 0)
