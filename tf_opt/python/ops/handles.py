"""Conversion of variables to the resource handles that an op takes."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

# A variable for an op's wrapper: of TensorFlow or Keras, or a handle (of a
# VariableGroup, for example).
VariableLike = tf.Variable | keras.Variable | tf.Tensor


def to_handles(
    argument: str, variables: Sequence[VariableLike]
) -> list[tf.Tensor]:
    """Returns the handles of variables; errors name the `argument`."""
    return [
        # First the usual case, because this runs in every eager step.
        handle
        if (handle := getattr(variable, "handle", None)) is not None
        else _check_handle(f"{argument}[{i}]", variable)
        for i, variable in enumerate(variables)
    ]


def _check_handle(element: str, value: VariableLike) -> tf.Tensor:
    if not isinstance(value, tf.Tensor) or value.dtype != tf.resource:
        raise TypeError(f"`{element}` must be a variable. Received: {value!r}")
    return value


def common_dtype(variables: Sequence[VariableLike]) -> tf.DType | None:
    """Returns the type of all variables, or None if it differs or is unknown.

    The type is unknown if a variable is passed as a handle.
    """
    # The types of Keras variables are strings.
    named = {variable.dtype for variable in variables}
    dtypes = {tf.dtypes.as_dtype(dtype) for dtype in named}
    if len(dtypes) > 1 or tf.resource in dtypes:
        return None
    return dtypes.pop()
