"""Factors of single variables, which may change between steps."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence

import tensorflow as tf


class Multipliers(tf.Module):
    """A factor for each model variable; 1 unless the user sets them."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.factors: tf.Variable | None = None
        self.are_set = False
        # The graphs of traced steps that don't read the factors.
        self._blind: weakref.WeakSet[tf.Graph] = weakref.WeakSet()

    def set(self, factors: Sequence[float] | None, count: int) -> None:
        """Sets the factors of `count` variables; None sets all to 1.

        Raises:
            ValueError: If a step has been traced that doesn't read them.
        """
        if factors is not None:
            self._check_read()
        values = [1.0] * count if factors is None else factors
        if self.factors is None:
            self.factors = tf.Variable(
                values, dtype=tf.float64, trainable=False, name=self.name
            )
        else:
            # A traced step may read this variable.
            self.factors.assign(values)
        self.are_set = factors is not None

    def of(
        self, indices: Sequence[int], *, may_be_set_later: bool = True
    ) -> tf.Tensor | None:
        """Returns the factors of some variables, or None if they aren't set.

        A step that is traced reads them before they are set. That doubles the
        time to trace and compile the composed implementation, which therefore
        sets `may_be_set_later=False`.
        """
        if not self.are_set:
            if tf.executing_eagerly():
                return None
            if not may_be_set_later:
                self._blind.add(tf.compat.v1.get_default_graph())
                return None
        factors = tf.convert_to_tensor(self.factors)
        if list(indices) == list(range(factors.shape[0])):
            return factors
        return tf.gather(factors, indices)

    def _check_read(self) -> None:
        if self._blind:
            # A model that is compiled again drops its traced steps in a cycle.
            gc.collect()
        if self._blind:
            raise ValueError(
                f"`{self.name}` must be set before a step of the composed "
                "implementation is traced, because that step doesn't read "
                "them. Call `model.compile` with this optimizer again and then "
                "set them. Or create the optimizer with "
                f"{self.name}={{'.': 1.0}}; then they may change at any time"
            )
