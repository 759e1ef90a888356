"""Exact values of variables and averages while they are swapped.

The variable with the narrower type holds a rounded value meanwhile.
"""

from __future__ import annotations

import tensorflow as tf


def kept(value: tf.Tensor, dtype: tf.DType) -> tf.Tensor | None:
    """Returns the value to keep, or None if it already has the type."""
    return None if value.dtype == dtype else value


def restored(kept: tf.Tensor | None, stored: tf.Tensor) -> tf.Tensor:
    """Returns the exact value, except where the variable has changed since.

    Args:
        kept: The result of `kept`; None if unknown.
        stored: The variable's value.
    """
    if kept is None:
        return stored
    is_rounded = tf.equal(tf.cast(kept, stored.dtype), stored)
    return tf.where(is_rounded, kept, tf.cast(stored, kept.dtype))
