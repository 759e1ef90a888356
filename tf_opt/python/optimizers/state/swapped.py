"""What a variable and its average were while each is in the other's place.

Where one of them is of a narrower type, what it holds meanwhile is rounded.
"""

from __future__ import annotations

import tensorflow as tf


def kept(value: tf.Tensor, dtype: tf.DType) -> tf.Tensor | None:
    """A value that goes into a variable of another type; None if of its own."""
    return None if value.dtype == dtype else value


def as_it_was(kept: tf.Tensor | None, stored: tf.Tensor) -> tf.Tensor:
    """What went into a variable, but where somebody has set that meanwhile.

    Args:
        kept: What `kept` has returned; None where nobody knows.
        stored: What is in the variable.
    """
    if kept is None:
        return stored
    is_rounded = tf.equal(tf.cast(kept, stored.dtype), stored)
    return tf.where(is_rounded, kept, tf.cast(stored, kept.dtype))
