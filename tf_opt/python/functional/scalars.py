"""Checks of the numbers that users pass.

Each function takes an argument's name and the user's value, and raises a
ValueError with both if the value can't be used.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import tensorflow as tf

from tf_opt.python.functional.arithmetic import Scalar


def real(
    name: str, value: Scalar, *, may_be_vector: bool = False
) -> float | tf.Tensor:
    """Converts a real number to a float or a float64 tensor, exactly.

    A Python number stays one, because passing it to an op costs nothing.
    """
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError as error:
            raise ValueError(_message(name, "a float64", value)) from error
    return _to_tensor(name, value, "a number", tf.float64, may_be_vector)


def integer(name: str, value: Scalar) -> int | tf.Tensor:
    """Converts an integer to an int or an int64 tensor.

    Floats are refused, even those without a fraction.
    """
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**63:
            raise ValueError(_message(name, "an integer of 64 bits", value))
        return int(value)
    return _to_tensor(name, value, "an integer", tf.int64)


def fixed_integer(name: str, value: int) -> int:
    """Converts an integer that can't be a tensor to a Python int."""
    number = None if tf.is_tensor(value) else integer(name, value)
    if not isinstance(number, int):
        raise ValueError(_message(name, "Python's integer", value))
    return number


def mode(name: str, value: bool | np.bool_) -> bool:
    """Converts a flag that chooses the computation, so it can't be a tensor.

    Only bools will do: Python would take a string such as "no" for true.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(_message(name, "True or False", value))
    return bool(value)


def flag(
    name: str, value: bool | np.bool_ | tf.Tensor | tf.Variable
) -> bool | tf.Tensor:
    """Converts a flag that may be known only when a step runs."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    return _to_tensor(name, value, "a bool", tf.bool)


def _to_tensor(
    name: str,
    value: Any,
    expected: str,
    dtype: tf.DType,
    may_be_vector: bool = False,
) -> tf.Tensor:
    """Converts a scalar that isn't a Python number of the expected type."""
    # TensorFlow would convert these, too, but not to the expected type.
    if isinstance(value, (bool, str, bytes, numbers.Real)):
        raise ValueError(_message(name, expected, value))
    try:
        tensor = tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise ValueError(_message(name, expected, value)) from error
    is_real = tensor.dtype.is_floating or tensor.dtype.is_integer
    if not {
        tf.float64: is_real,
        tf.int64: tensor.dtype.is_integer,
        tf.bool: tensor.dtype.is_bool,
    }[dtype]:
        raise ValueError(_message(name, expected, value))
    rank = tensor.shape.rank
    if rank is not None and rank > may_be_vector:
        shape = "a scalar or a vector" if may_be_vector else "a scalar"
        raise ValueError(
            f"`{name}` must be {shape}, got shape {tensor.shape.as_list()}"
        )
    return tf.cast(tensor, dtype)


def _message(name: str, expected: str, value: Any) -> str:
    return f"`{name}` must be {expected}. Received: {name}={value!r}"
