"""Variables as the resource handles that an op takes."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

# What an op's wrapper accepts as a variable: either kind of variable, or a
# handle (also a VariableGroup's).
VariableLike = tf.Variable | keras.Variable | tf.Tensor


def to_handles(
    variables: Sequence[VariableLike], argument: str
) -> list[tf.Tensor]:
    """The handles of `variables`; `argument` is their name in an error."""
    if isinstance(variables, VariableLike):
        raise TypeError(
            f"`{argument}` must be a list of variables. Received one: "
            f"{variables}"
        )
    handles = []
    for i, variable in enumerate(variables):
        handle = getattr(variable, "handle", variable)
        if not tf.is_tensor(handle) or handle.dtype != tf.resource:
            raise TypeError(
                f"`{argument}[{i}]` must be a variable. Received: {variable}"
            )
        handles.append(handle)
    return handles
