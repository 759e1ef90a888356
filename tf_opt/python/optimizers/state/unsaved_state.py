"""Variables of an optimizer that are not among its `variables`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class UnsavedState(tf.Module):
    """Variables that checkpoints don't contain.

    `optimizer.variables` has Keras' order, so that checkpoints move to Keras'
    optimizers and back. An attribute holds this module, so that TensorFlow
    tracks the variables for saved functions; Keras doesn't track modules.
    """

    def __init__(self) -> None:
        super().__init__(name="unsaved_state")
        self.learning_rate_multipliers: tf.Variable | None = None
        self.weight_decay_multipliers: tf.Variable | None = None
        self.gradient_norm: tf.Variable | None = None
        self.skipped_steps: tf.Variable | None = None

    def build(self, *, gradient_norm: bool, skipped_steps: bool) -> None:
        """Creates the variables; drops those of an earlier build.

        Args:
            gradient_norm: Whether to keep the gradients' norm.
            skipped_steps: Whether to count skipped steps.
        """
        self.learning_rate_multipliers = None
        self.weight_decay_multipliers = None
        self.gradient_norm = None
        self.skipped_steps = None
        if gradient_norm:
            self.gradient_norm = tf.Variable(
                0.0, dtype=tf.float64, trainable=False, name="gradient_norm"
            )
        if skipped_steps:
            self.skipped_steps = tf.Variable(
                0, dtype=tf.int64, trainable=False, name="skipped_steps"
            )

    def _trackable_children(
        self, save_type: str = "checkpoint", **kwargs: Any
    ) -> dict[str, Any]:
        # TensorFlow calls this to find the parts of an object to save.
        if save_type == "checkpoint":
            return {}
        return super()._trackable_children(save_type, **kwargs)

    def value(self, name: str, arguments: str) -> tf.Tensor:
        """Returns a number that is kept if arguments ask for it.

        Args:
            name: The number's name.
            arguments: The arguments, as an error names them.

        Raises:
            ValueError: If it isn't kept.
        """
        variable = getattr(self, name)
        if variable is None:
            raise ValueError(
                f"`{name}` is known once an optimizer with {arguments} has "
                "been built."
            )
        return tf.convert_to_tensor(variable)

    def set_multipliers(
        self, name: str, factors: Sequence[float] | None, count: int
    ) -> None:
        """Sets the factors of all variables; None sets all to 1.

        An existing variable stays, since a traced step may read it.
        """
        variable = getattr(self, name)
        if factors is None:
            if variable is not None:
                variable.assign([1.0] * count)
        elif variable is None:
            variable = tf.Variable(
                factors, dtype=tf.float64, trainable=False, name=name
            )
            setattr(self, name, variable)
        else:
            variable.assign(factors)

    def multipliers(
        self, name: str, indices: Sequence[int]
    ) -> tf.Tensor | None:
        """Returns the factors of some variables, or None without factors."""
        variable = getattr(self, name)
        if variable is None:
            return None
        return tf.gather(tf.convert_to_tensor(variable), indices)
