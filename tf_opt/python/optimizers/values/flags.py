"""Booleans that are Python's or tensors.

Eager steps on a CPU use Python's, which cost no op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_opt.python.functional import arithmetic

Flag = bool | tf.Tensor


def both(a: Flag, b: Flag) -> Flag:
    """Returns whether both are true."""
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return a & b


def choose(condition: Flag, new: Any, old: Any) -> Any:
    """Returns `new` where the condition holds, else `old`."""
    if isinstance(condition, bool):
        return new if condition else old
    new, old = (
        arithmetic.float64(x)
        if isinstance(x, (int, float))
        else tf.convert_to_tensor(x)
        for x in (new, old)
    )
    return tf.where(condition, new, old)


def cond(
    condition: Flag,
    do: Callable[[], Any],
    otherwise: Callable[[], Any] = lambda: None,
) -> Any:
    """Calls one of two functions, and in a graph adds both to a condition."""
    if isinstance(condition, bool):
        return do() if condition else otherwise()
    return tf.cond(condition, do, otherwise)
