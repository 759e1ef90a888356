"""Variables of an optimizer that are not among its `variables`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class UnlistedState(tf.Module):
    """Numbers beside an optimizer's `variables`, which have Keras' order.

    So those move to Keras' optimizers and back. TensorFlow sees these through
    the attribute that holds this module, to save functions that use them;
    Keras doesn't, and checkpoints have none of them. (Multipliers are what the
    optimizer says, not what one was saved with.)
    """

    def __init__(self) -> None:
        super().__init__(name="unlisted_state")
        self.learning_rate_multipliers: tf.Variable | None = None
        self.weight_decay_multipliers: tf.Variable | None = None
        self.gradient_norm: tf.Variable | None = None
        self.skipped_steps: tf.Variable | None = None
        # See optimizers/accumulated_rows.py.
        self.accumulated_rows: list[tf.Variable] = []
        self.accumulated_counts: tf.Variable | None = None
        self.accumulated_until: tf.Variable | None = None

    def build(self, *, track_gradient_norm: bool, skip_nonfinite: bool) -> None:
        """Makes what the optimizer keeps; forgets what was of others.

        Args:
            track_gradient_norm: Whether a norm is kept.
            skip_nonfinite: Whether skipped steps are counted.
        """
        self.learning_rate_multipliers = None
        self.weight_decay_multipliers = None
        self.gradient_norm = None
        self.skipped_steps = None
        self.accumulated_rows = []
        self.accumulated_counts = None
        self.accumulated_until = None
        if track_gradient_norm:
            self.gradient_norm = tf.Variable(
                0.0, dtype=tf.float64, trainable=False, name="gradient_norm"
            )
        if skip_nonfinite:
            self.skipped_steps = tf.Variable(
                0, dtype=tf.int64, trainable=False, name="skipped_steps"
            )

    def _trackable_children(
        self, save_type: str = "checkpoint", **kwargs: Any
    ) -> dict[str, Any]:
        # TensorFlow's name for what it saves of an object.
        if save_type == "checkpoint":
            return {}
        return super()._trackable_children(save_type, **kwargs)

    def value(self, name: str, arguments: str) -> tf.Tensor:
        """A number that is kept if arguments ask for it.

        Args:
            name: Its name.
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
        """Sets the factors of all variables; None is none.

        Once there is a variable it stays: a traced step reads it.
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
        """The factors of some variables; None where there are none."""
        variable = getattr(self, name)
        if variable is None:
            return None
        return tf.gather(tf.convert_to_tensor(variable), indices)
