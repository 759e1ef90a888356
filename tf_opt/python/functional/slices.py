"""Operations on `tf.IndexedSlices`: summing repeated rows, gathering."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_opt.python import tensorflow_internals
from tf_opt.python.functional import arithmetic


class MergedSlices(NamedTuple):
    """Sorted rows of a gradient, each with the sum of its repetitions.

    The slices' shapes are kept, so that XLA knows them: a row that occurs three
    times is listed three times, each time with the whole sum.

    Attributes:
        rows: The row indices, sorted.
        sums: The sum of each row's values.
        is_first: Whether an entry is the first one of its row.
    """

    rows: tf.Tensor
    sums: tf.Tensor
    is_first: tf.Tensor

    def once(self) -> tf.Tensor:
        """Returns the sums, with zeros in all but a row's first entry."""
        return tf.where(
            arithmetic.of_rows(self.is_first, self.sums),
            self.sums,
            tf.zeros((), self.sums.dtype),
        )


def merge(values: tf.Tensor, indices: tf.Tensor) -> MergedSlices:
    """Sums the values of repeated rows, on CPUs in the order of occurrence.

    The sums are computed in the arithmetic type and cast to that of `values`.
    """
    order = tf.argsort(indices, stable=True)
    rows = tf.gather(indices, order)
    is_first = tf.concat(
        [tf.ones_like(rows[:1], tf.bool), tf.not_equal(rows[1:], rows[:-1])],
        axis=0,
    )
    if rows.shape[0] is None and tensorflow_internals.inside_xla():
        # XLA's cumsum is wrong if an op decides the number of rows.
        segments = tf.searchsorted(rows, rows)
    else:
        segments = tf.cumsum(tf.cast(is_first, tf.int32)) - 1
    dtype = arithmetic.slot_dtype(values.dtype)
    sums = tf.math.unsorted_segment_sum(
        tf.cast(tf.gather(values, order), dtype), segments, tf.shape(rows)[0]
    )
    return MergedSlices(
        rows, tf.cast(tf.gather(sums, segments), values.dtype), is_first
    )


def to_gather(slices: tf.IndexedSlices) -> tf.IndexedSlices:
    """Converts slices for gathering, which takes no bfloat16.

    Empty slices get a filler row, with an index that no table has: TensorFlow
    crashes when it gathers slices and no replica has any row.
    """
    values, indices = slices.values, slices.indices
    if values.dtype == tf.bfloat16:
        values = tf.cast(values, tf.float32)
    # XLA knows all shapes, though only when it compiles.
    if indices.shape[0] or tensorflow_internals.inside_xla():
        return tf.IndexedSlices(values, indices)
    return tf.IndexedSlices(
        *tf.cond(
            tf.equal(tf.shape(indices)[0], 0),
            lambda: (
                tf.zeros([1, *values.shape[1:]], values.dtype),
                tf.constant([indices.dtype.min], indices.dtype),
            ),
            lambda: (values, indices),
        )
    )


def gathered(slices: tf.IndexedSlices, dtype: tf.DType) -> tf.IndexedSlices:
    """Converts gathered slices from `to_gather` back, without filler rows."""
    values, indices = slices.values, slices.indices
    if not tensorflow_internals.inside_xla():
        is_row = tf.not_equal(indices, indices.dtype.min)
        values, indices = tf.cond(
            tf.reduce_all(is_row),
            lambda: (slices.values, slices.indices),
            lambda: (
                tf.boolean_mask(slices.values, is_row),
                tf.boolean_mask(slices.indices, is_row),
            ),
        )
    return tf.IndexedSlices(tf.cast(values, dtype), indices)
