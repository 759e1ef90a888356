"""A rule's tensors as users give them; each error names the argument."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python.functional import arithmetic

# A tensor, or what TensorFlow makes one of.
TensorLike = (
    tf.Tensor | tf.Variable | keras.Variable | np.ndarray | Sequence[Any]
)


# What a slot may be instead of the arithmetic's type.
_NARROWER = {
    tf.float32: (tf.bfloat16,),
    tf.float64: (tf.float32, tf.bfloat16),
}


def to_tensor(
    name: str, value: TensorLike, dtype: tf.DType | None = None
) -> tf.Tensor:
    """A tensor of `value`.

    Args:
        name: The argument's name.
        value: What the user gave.
        dtype: The type for numbers that have no TensorFlow type yet, as those
            in lists and NumPy arrays; tensors and variables keep theirs.

    Returns:
        The tensor.

    Raises:
        ValueError: If TensorFlow can't make one.
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
    """The tensors of a step, checked to fit `variable`.

    Args:
        variable: What the user gave for the variable.
        gradient: Likewise for its gradient, of the same type.
        exact: The slots that must be of the arithmetic's type.
        **slots: Likewise for its slots, by name.

    Returns:
        The variable, its gradient and its slots, in their order.

    Raises:
        ValueError: If one isn't a tensor, or of the wrong type or shape.
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
