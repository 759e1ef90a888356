"""Checks of the numbers and tensors that users pass.

Each function takes an argument's name and the user's value, and raises a
ValueError with both if the value can't be used.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python.functional.arithmetic import Scalar, TensorLike


def real(name: str, value: Scalar) -> float | tf.Tensor:
    """Converts a real number to a float or a float64 tensor, exactly.

    A Python number stays one, because passing it to an op costs nothing.
    """
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError as error:
            raise ValueError(_message(name, "a float64", value)) from error
    return _scalar(name, value, "a number", tf.float64)


def integer(name: str, value: Scalar) -> int | tf.Tensor:
    """Converts an integer to an int or an int64 tensor.

    Floats are refused, even those without a fraction.
    """
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        fits = -(2**63) <= value < 2**63
        require(fits, name, value, "an integer of 64 bits")
        return int(value)
    return _scalar(name, value, "an integer", tf.int64)


def fixed_integer(name: str, value: int) -> int:
    """Converts an integer that can't be a tensor to a Python int."""
    number = None if tf.is_tensor(value) else integer(name, value)
    require(isinstance(number, int), name, value, "Python's integer")
    return number


def mode(name: str, value: bool | np.bool_) -> bool:
    """Converts a flag that chooses the computation, so it can't be a tensor.

    Only bools will do: Python would take a string such as "no" for true.
    """
    is_right = isinstance(value, (bool, np.bool_))
    require(is_right, name, value, "True or False")
    return bool(value)


def flag(
    name: str, value: bool | np.bool_ | tf.Tensor | tf.Variable
) -> bool | tf.Tensor:
    """Converts a flag that may be known only when a step runs."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    return _scalar(name, value, "a bool", tf.bool)


def _scalar(name: str, value: Any, expected: str, dtype: tf.DType) -> tf.Tensor:
    """Converts a scalar that isn't a Python number of the expected type."""
    # TensorFlow would convert these, too, but not to the expected type.
    is_other = isinstance(value, (bool, str, bytes, numbers.Real))
    require(not is_other, name, value, expected)
    try:
        tensor = tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise ValueError(_message(name, expected, value)) from error
    is_real = tensor.dtype.is_floating or tensor.dtype.is_integer
    is_right = {
        tf.float64: is_real,
        tf.int64: tensor.dtype.is_integer,
        tf.bool: tensor.dtype.is_bool,
    }
    require(is_right[dtype], name, value, expected)
    require(tensor.shape.rank in (0, None), name, value, "a scalar")
    return tf.cast(tensor, dtype)


def require(is_right: bool, name: str, value: Any, expected: str) -> None:
    """Raises a ValueError that names an argument, unless it `is_right`."""
    if not is_right:
        raise ValueError(_message(name, expected, value))


def _message(name: str, expected: str, value: Any) -> str:
    return f"`{name}` must be {expected}. Received: {name}={value!r}"


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


def like(
    name: str,
    value: TensorLike,
    other_name: str,
    other: tf.Tensor,
    dtypes: Sequence[tf.DType],
    shape: tf.TensorShape | None = None,
) -> tf.Tensor:
    """Converts a value to a tensor that belongs to another one.

    By default it has the other one's shape. The first of the types allowed is
    for numbers without a TensorFlow type. Raises a ValueError if it isn't a
    tensor, or has the wrong type or shape.
    """
    tensor = to_tensor(name, value, dtypes[0])
    expected = f"the shape of `{other_name}`, {other.shape}"
    if shape is None:
        shape = other.shape
    elif shape != other.shape:
        expected = f"the shape {shape}, by {expected}"
    if not tensor.shape.is_compatible_with(shape):
        raise ValueError(
            f"`{name}` must have {expected}. Received: {tensor.shape}"
        )
    if tensor.dtype not in dtypes:
        names = " or ".join(dtype.name for dtype in dtypes)
        raise ValueError(
            f"`{name}` must be {names}, because `{other_name}` is "
            f"{other.dtype.name}. Received: {tensor.dtype.name}"
        )
    return tensor
