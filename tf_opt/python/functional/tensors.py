"""Checks of the tensors that users pass; each error names the argument."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python.functional import arithmetic

# A tensor, or an object that TensorFlow converts to one.
TensorLike = (
    tf.Tensor | tf.Variable | keras.Variable | np.ndarray | Sequence[Any]
)


# Narrower types that a slot may have, by arithmetic type.
_NARROWER = {
    tf.float32: (tf.bfloat16,),
    tf.float64: (tf.float32, tf.bfloat16),
}


def to_tensor(
    name: str, value: TensorLike, dtype: tf.DType | None = None
) -> tf.Tensor:
    """Converts a value to a tensor.

    Args:
        name: The argument's name.
        value: The user's value.
        dtype: The type for numbers without a TensorFlow type, such as those in
            lists and NumPy arrays. Tensors and variables keep their types.

    Returns:
        The tensor.

    Raises:
        ValueError: If TensorFlow can't convert the value.
    """
    if isinstance(value, tf.Tensor):
        return value
    if isinstance(value, (tf.Variable, keras.Variable, tf.IndexedSlices)):
        dtype = None
    try:
        if isinstance(value, np.ndarray) and np.iscomplexobj(value):
            if dtype is not None and not dtype.is_complex:
                raise TypeError("TensorFlow would drop the imaginary parts")
        return tf.convert_to_tensor(value, dtype)
    except (TypeError, ValueError) as error:
        wanted = "a tensor" if dtype is None else f"a tensor of {dtype.name}"
        raise ValueError(
            f"`{name}` must be {wanted}. Received: {value!r}"
        ) from error


def to_tensors(
    variable: TensorLike,
    gradient: TensorLike,
    *,
    exact: Collection[str] = (),
    **slots: TensorLike,
) -> tuple[tf.Tensor, tf.Tensor, dict[str, tf.Tensor]]:
    """Converts the arguments of a step to tensors and checks that they fit.

    Args:
        variable: The user's value for the variable.
        gradient: The user's value for its gradient, of the same type.
        exact: The slots that must have the arithmetic type.
        **slots: The user's values for its slots, by name.

    Returns:
        The variable, its gradient and its slots, in their order.

    Raises:
        ValueError: If a value isn't a tensor, or has the wrong type or shape.
    """
    variable = to_tensor("variable", variable)
    if not (variable.dtype.is_floating or variable.dtype.is_complex):
        raise ValueError(
            "`variable` must be floating point or complex. Received: "
            f"{variable.dtype.name}"
        )
    gradient = _like("gradient", gradient, variable, variable.dtype)
    slot_dtype = arithmetic.slot_dtype(variable.dtype)
    return (
        variable,
        gradient,
        {
            name: _like(
                name,
                slot,
                variable,
                slot_dtype,
                () if name in exact else _NARROWER.get(slot_dtype, ()),
            )
            for name, slot in slots.items()
        },
    )


def _like(
    name: str,
    value: TensorLike,
    variable: tf.Tensor,
    dtype: tf.DType,
    narrower: Sequence[tf.DType] = (),
) -> tf.Tensor:
    tensor = to_tensor(name, value, dtype)
    if not tensor.shape.is_compatible_with(variable.shape):
        raise ValueError(
            f"`{name}` must have the shape of `variable`, "
            f"{variable.shape}. Received: {tensor.shape}"
        )
    allowed = (dtype, *narrower)
    if tensor.dtype not in allowed:
        names = " or ".join(each.name for each in allowed)
        raise ValueError(
            f"`{name}` must be {names} for a variable of "
            f"{variable.dtype.name}. Received: {tensor.dtype.name}"
        )
    return tensor
