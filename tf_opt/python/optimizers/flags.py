"""True or False, or a tensor that says which."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

Flag = bool | tf.Tensor


def both(a: Flag, b: Flag) -> Flag:
    """Whether both are true; costs no op where one is known."""
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return a & b


def choose(condition: Flag, new: tf.Tensor, old: Any) -> tf.Tensor:
    """`new` where the condition holds, else `old`, which may be a variable."""
    if condition is True:
        return new
    return tf.where(condition, new, tf.convert_to_tensor(old))
