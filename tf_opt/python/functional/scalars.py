"""Checks of the numbers that users pass; each error names the argument."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
import tensorflow as tf

from tf_opt.python.functional.arithmetic import Scalar

_COUNTS = {"step", "seen_batches"}

# Ranges of the rules' arguments: the first bound is included, the second one
# isn't. The ops check the same ranges (see tf_opt/cc/rules/).
_RANGES = {
    **dict.fromkeys(_COUNTS, (1, math.inf)),
    **dict.fromkeys(("beta_1", "beta_2"), (0, 1)),
    **dict.fromkeys(
        ("epsilon", "momentum_decay", "lambd", "t0"), (0, math.inf)
    ),
}


def real(
    name: str, value: Scalar, *, may_be_vector: bool = False
) -> float | tf.Tensor:
    """Converts a real number to a float or a float64 tensor, exactly.

    Args:
        name: The argument's name.
        value: The user's value.
        may_be_vector: Whether a vector of numbers is allowed.

    Returns:
        The number. A Python number stays one, because passing it to an op
        costs nothing.

    Raises:
        ValueError: If it isn't a single real number.
    """
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError as error:
            raise ValueError(_message(name, "a float64", value)) from error
    tensor = _to_tensor(name, value, "a number")
    if not (tensor.dtype.is_floating or tensor.dtype.is_integer):
        raise ValueError(_message(name, "a number", value))
    _check_rank(name, tensor, 1 if may_be_vector else 0)
    return tensor if tensor.dtype == tf.float64 else tf.cast(tensor, tf.float64)


def integer(name: str, value: Scalar) -> int | tf.Tensor:
    """Converts an integer to an int or an int64 tensor.

    Args:
        name: The argument's name.
        value: The user's value.

    Returns:
        The number. A Python number stays one.

    Raises:
        ValueError: If it isn't a single integer. Floats are refused, even
            those without a fraction.
    """
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**63:
            raise ValueError(_message(name, "an integer of 64 bits", value))
        return int(value)
    tensor = _to_tensor(name, value, "an integer")
    if not tensor.dtype.is_integer:
        raise ValueError(_message(name, "an integer", value))
    _check_rank(name, tensor, 0)
    return tensor if tensor.dtype == tf.int64 else tf.cast(tensor, tf.int64)


def fixed_integer(name: str, value: int) -> int:
    """Converts an integer that can't be a tensor to a Python int.

    Args:
        name: The argument's name.
        value: The user's value.

    Raises:
        ValueError: If it isn't an integer of 64 bits.
    """
    number = None if tf.is_tensor(value) else integer(name, value)
    if not isinstance(number, int):
        raise ValueError(_message(name, "Python's integer", value))
    return number


def numbers_of_step(**values: Scalar) -> dict[str, float | int | tf.Tensor]:
    """Checks the numbers of a rule, passed by the names of its arguments.

    Args:
        **values: The user's values.

    Returns:
        The numbers by name: `integer` of step and batch counts, `real` of the
        others.

    Raises:
        ValueError: If a value isn't such a number or is out of range. Ranges
            of tensors aren't checked, since that would read the tensor.
    """
    checked = {}
    for name, value in values.items():
        number = (integer if name in _COUNTS else real)(name, value)
        if name in _RANGES and not tf.is_tensor(number):
            least, bound = _RANGES[name]
            if not least <= number < bound:
                expected = f">= {least}" if bound == math.inf else "in [0, 1)"
                raise ValueError(f"`{name}` must be {expected}, got {number}")
        checked[name] = number
    return checked


def booleans(**values: bool | np.bool_) -> dict[str, bool]:
    """Converts flags, passed by name, to Python bools.

    These flags choose the computation, so they can't be tensors.

    Args:
        **values: The user's values.

    Returns:
        The bools by name.

    Raises:
        ValueError: If a value is neither a Python bool nor a NumPy bool.
            Python would take a string such as "no" for true.
    """
    for name, value in values.items():
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(_message(name, "True or False", value))
    return {name: bool(value) for name, value in values.items()}


def boolean(
    name: str, value: bool | np.bool_ | tf.Tensor | tf.Variable
) -> bool | tf.Tensor:
    """Converts a flag that may be known only when a step runs.

    Args:
        name: The argument's name.
        value: The user's value.

    Returns:
        A Python bool, or a scalar bool tensor.

    Raises:
        ValueError: If it isn't a single bool.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    tensor = _to_tensor(name, value, "a bool")
    if tensor.dtype != tf.bool:
        raise ValueError(_message(name, "a bool", value))
    _check_rank(name, tensor, 0)
    return tensor


def _to_tensor(name: str, value: Any, expected: str) -> tf.Tensor:
    if isinstance(value, tf.Tensor):
        return value
    # TensorFlow would convert these, too, but not to the expected type.
    if isinstance(value, (bool, str, bytes, numbers.Real)):
        raise ValueError(_message(name, expected, value))
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise ValueError(_message(name, expected, value)) from error


def _check_rank(name: str, tensor: tf.Tensor, greatest: int) -> None:
    rank = tensor.shape.rank
    if rank is not None and rank > greatest:
        expected = "a scalar or a vector" if greatest else "a scalar"
        raise ValueError(
            f"`{name}` must be {expected}, got shape {tensor.shape.as_list()}"
        )


def _message(name: str, expected: str, value: Any) -> str:
    return f"`{name}` must be {expected}. Received: {name}={value!r}"
