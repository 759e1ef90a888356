"""Variables as the resource handles that an op takes."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

# What an op's wrapper accepts as a variable: either kind of variable, or a
# handle (also a VariableGroup's).
VariableLike = tf.Variable | keras.Variable | tf.Tensor


def to_handles(
    argument: str, variables: Sequence[VariableLike]
) -> list[tf.Tensor]:
    """The handles of `variables`; `argument` is their name in an error."""
    return [
        # Most are variables; this runs in every eager step.
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
    """The type of all these variables; None if they differ or are handles."""
    # Keras' variables name their types.
    named = {variable.dtype for variable in variables}
    dtypes = {tf.dtypes.as_dtype(dtype) for dtype in named}
    if len(dtypes) > 1 or tf.resource in dtypes:
        return None
    return dtypes.pop()
