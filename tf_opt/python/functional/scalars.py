"""A step's numbers as users give them; each error names the argument."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
import tensorflow as tf

from tf_opt.python.functional.arithmetic import Scalar

_COUNTS = {"step", "seen_batches"}

# What the rules are defined for: at least the first, below the second. The ops
# check the same (see tf_opt/cc/rules/).
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
    """A real number with all its digits: a float, or a tensor in float64.

    Args:
        name: The argument's name.
        value: What the user gave.
        may_be_vector: Whether it may be a vector of them.

    Returns:
        The number. It stays in Python where it was, for an op takes that at no
        cost.

    Raises:
        ValueError: If it isn't a real number, or not one.
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
    """An integer: an int, or a tensor in int64.

    Args:
        name: The argument's name.
        value: What the user gave.

    Returns:
        The number, where it was.

    Raises:
        ValueError: If it isn't an integer, or not one. A float is none,
            whatever its value.
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
    """Python's int, for what can't be a tensor.

    Args:
        name: The argument's name.
        value: What the user gave.

    Raises:
        ValueError: If it isn't an integer of 64 bits.
    """
    number = None if tf.is_tensor(value) else integer(name, value)
    if not isinstance(number, int):
        raise ValueError(_message(name, "Python's integer", value))
    return number


def numbers_of_step(**values: Scalar) -> dict[str, float | int | tf.Tensor]:
    """What a rule goes by, by its arguments' names; each checked.

    Args:
        **values: What the user gave.

    Returns:
        `integer` of those that count, `real` of the others.

    Raises:
        ValueError: If one isn't such a number or, where that is known without
            reading a tensor, is out of its range.
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
    """Python's bool of each argument, given by its name.

    They choose the computation, so they can't be tensors.

    Args:
        **values: What the user gave.

    Returns:
        The bools.

    Raises:
        ValueError: If one is neither Python's bool nor NumPy's: a string such
            as "no" would be true.
    """
    for name, value in values.items():
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(_message(name, "True or False", value))
    return {name: bool(value) for name, value in values.items()}


def boolean(
    name: str, value: bool | np.bool_ | tf.Tensor | tf.Variable
) -> bool | tf.Tensor:
    """A bool that may be known only when a step runs.

    Args:
        name: The argument's name.
        value: What the user gave.

    Returns:
        Python's bool, or a scalar tensor of one.

    Raises:
        ValueError: If it isn't a bool, or not one.
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
    # TensorFlow makes tensors of these, but no number that was asked for.
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
