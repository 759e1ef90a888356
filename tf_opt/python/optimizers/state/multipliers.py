"""Factors of single variables, which may change between steps.

Users name variables by regular expressions on their paths. A step sees vectors
over all variables.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_opt.python.optimizers.state import patterns
from tf_opt.python.optimizers.values import validation


def check(name: str, multipliers: Any) -> dict[str, float] | None:
    """Returns a copy of a user's multipliers.

    Raises a ValueError unless they are None or a dictionary of regular
    expressions and numbers >= 0.
    """
    if multipliers is None:
        return None
    if not isinstance(multipliers, Mapping):
        raise ValueError(
            f"`{name}` must be a dictionary of regular expressions and "
            f"factors, or None. Received: {name}={multipliers!r}"
        )
    patterns.check(name, multipliers, "keys")
    for pattern, factor in multipliers.items():
        validation.check_not_negative(f"{name}[{pattern!r}]", factor)
    return {pattern: float(x) for pattern, x in multipliers.items()}


class Multipliers(tf.Module):
    """A factor for each model variable, if the user sets any."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.factors: tf.Variable | None = None
        # The graphs of steps that were traced without factors.
        self._traced_without: weakref.WeakSet[tf.Graph] = weakref.WeakSet()

    def set(self, factors: Sequence[float] | None, count: int) -> None:
        """Sets the factors of `count` variables; None sets all to 1.

        Raises:
            ValueError: If a step that was traced doesn't read them.
        """
        if self.factors is not None:
            # A traced step may read this variable.
            self.factors.assign([1.0] * count if factors is None else factors)
        elif factors is not None:
            self._check_no_step_lacks_them()
            self.factors = tf.Variable(
                factors, dtype=tf.float64, trainable=False, name=self.name
            )

    def of(self, indices: Sequence[int]) -> tf.Tensor | None:
        """Returns the factors of some variables, or None without factors."""
        if self.factors is not None:
            return tf.gather(tf.convert_to_tensor(self.factors), indices)
        if not tf.executing_eagerly():
            self._traced_without.add(tf.compat.v1.get_default_graph())
        return None

    def _check_no_step_lacks_them(self) -> None:
        if self._traced_without:
            # A model that is compiled again drops its traced steps in a cycle.
            gc.collect()
        if self._traced_without:
            raise ValueError(
                f"`{self.name}` must be set before a step is traced, because "
                "a step that was traced without them doesn't read them. Begin "
                f"with {self.name}={{'.': 1.0}}, and they may change at any "
                "time. Or call `model.compile` with this optimizer again and "
                "then set them, except under a strategy"
            )
