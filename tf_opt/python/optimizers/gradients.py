"""Gradients in the form that a step takes."""

from __future__ import annotations

import tensorflow as tf

from tf_opt.python.functional import arithmetic

Gradient = tf.Tensor | tf.IndexedSlices


def to_dense(gradient: Gradient, dtype: tf.DType | None = None) -> tf.Tensor:
    """A dense tensor with the rows that a sparse gradient repeats summed.

    Args:
        gradient: A tensor, or `tf.IndexedSlices` as an embedding produces.
        dtype: The type of the result; the gradient's own if None.

    Returns:
        A dense tensor.
    """
    dtype = dtype or gradient.dtype
    if isinstance(gradient, tf.IndexedSlices):
        # Summed in the moments' type: a 16-bit sum of many rows loses digits.
        values = tf.cast(gradient.values, arithmetic.slot_dtype(gradient.dtype))
        gradient = tf.math.unsorted_segment_sum(
            values, gradient.indices, gradient.dense_shape[0]
        )
    return gradient if gradient.dtype == dtype else tf.cast(gradient, dtype)
