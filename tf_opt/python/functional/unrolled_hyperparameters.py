"""The hyperparameters of each of several steps."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import scalars
from tf_opt.python.functional.arithmetic import Scalar

# One for all steps, one for each, or a function of the iteration.
Hyperparameter = Scalar | Sequence[Scalar] | Callable[[tf.Tensor], Scalar]


class Hyperparameters:
    """Those of each step, checked as far as the rule doesn't."""

    def __init__(
        self,
        rule: Callable[..., tuple],
        given: Mapping[str, Hyperparameter | bool],
        steps: int,
    ) -> None:
        """Takes what the user gave, and the rule's defaults."""
        self._values = {
            name: parameter.default
            for name, parameter in inspect.signature(rule).parameters.items()
            if parameter.kind == inspect.Parameter.KEYWORD_ONLY
            and parameter.default is not inspect.Parameter.empty
        }
        for name, value in given.items():
            if name not in self._values:
                raise TypeError(
                    f"{rule.__name__} has no hyperparameter `{name}`; it has "
                    + ", ".join(self._values)
                )
            self._values[name] = self._checked(name, value, steps)

    @staticmethod
    def _checked(
        name: str, value: Hyperparameter | bool, steps: int
    ) -> float | bool | tf.Tensor | Callable[[tf.Tensor], Scalar]:
        if callable(value) or isinstance(value, (bool, np.bool_)):
            return value
        if isinstance(value, (list, tuple)):
            # Each by itself: TensorFlow makes float32 of a list of numbers.
            value = tf.stack(
                [arithmetic.float64(scalars.real(name, x)) for x in value]
            )
        number = scalars.real(name, value, may_be_vector=True)
        if tf.is_tensor(number) and not number.shape.is_compatible_with(
            [] if number.shape.rank == 0 else [steps]
        ):
            raise ValueError(
                f"`{name}` must be a scalar, a vector of one for each of the "
                f"{steps} steps, or a function of the iteration. Received "
                f"shape {number.shape}"
            )
        return number

    def at(self, i: int | tf.Tensor, iteration: tf.Tensor) -> dict[str, Scalar]:
        """Those of the i-th step here, which is that iteration of all."""

        def of_step(value: Any) -> Scalar:
            if callable(value):
                return value(iteration)
            is_vector = tf.is_tensor(value) and value.shape.rank == 1
            return value[i] if is_vector else value

        return {name: of_step(value) for name, value in self._values.items()}
