"""Checks of the tensors that users pass; each error names the argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

# A tensor, or an object that TensorFlow converts to one.
TensorLike = (
    tf.Tensor
    | tf.Variable
    | keras.Variable
    | np.ndarray
    | Sequence[Any]
    | float
)


def to_tensor(
    name: str, value: TensorLike, dtype: tf.DType | None = None
) -> tf.Tensor:
    """Converts a user's value to a tensor; raises ValueError if it can't.

    `dtype` is for numbers without a TensorFlow type, such as those in lists
    and NumPy arrays. Tensors and variables keep their types.
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


def floating(name: str, value: TensorLike) -> tf.Tensor:
    """Converts to a floating point or complex tensor; raises ValueError."""
    tensor = to_tensor(name, value)
    if not (tensor.dtype.is_floating or tensor.dtype.is_complex):
        raise ValueError(
            f"`{name}` must be floating point or complex. Received: "
            f"{tensor.dtype.name}"
        )
    return tensor


def check_has_rows(name: str, tensor: tf.Tensor) -> None:
    """Raises a ValueError if a tensor is a scalar or complex."""
    if tensor.shape.rank == 0 or tensor.dtype.is_complex:
        raise ValueError(
            f"`{name}` must have rows and be real, with `row_wise`. Received: "
            f"{tensor.dtype.name} of shape {tensor.shape}"
        )


def like(
    name: str,
    value: TensorLike,
    other_name: str,
    other: tf.Tensor,
    dtypes: Sequence[tf.DType],
    *,
    by_row: bool = False,
) -> tf.Tensor:
    """Converts a value to a tensor that has the shape of another one.

    With `by_row`, it has one element for each row of the other one. The first
    of the types allowed is for numbers without a TensorFlow type. Raises a
    ValueError if it isn't a tensor, or has the wrong type or shape.
    """
    tensor = to_tensor(name, value, dtypes[0])
    shape = other.shape[:1] if by_row else other.shape
    if not tensor.shape.is_compatible_with(shape):
        each = "one element for each row" if by_row else "the shape"
        raise ValueError(
            f"`{name}` must have {each} of `{other_name}`, {shape}. Received: "
            f"{tensor.shape}"
        )
    if tensor.dtype not in dtypes:
        names = " or ".join(dtype.name for dtype in dtypes)
        raise ValueError(
            f"`{name}` must be {names}, because `{other_name}` is "
            f"{other.dtype.name}. Received: {tensor.dtype.name}"
        )
    return tensor
