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
    """Sums the values of repeated rows, in the order of their occurrence.

    The sums are computed in the arithmetic type and cast to that of `values`.
    """
    order = tf.argsort(indices, stable=True)
    rows = tf.gather(indices, order)
    is_first = tf.concat(
        [tf.ones_like(rows[:1], tf.bool), rows[1:] != rows[:-1]], axis=0
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
    """Converts slices for gathering, which takes no bfloat16."""
    if slices.values.dtype == tf.bfloat16:
        values = tf.cast(slices.values, tf.float32)
        slices = tf.IndexedSlices(values, slices.indices)
    return _never_empty(slices)


def gathered(slices: tf.IndexedSlices, dtype: tf.DType) -> tf.IndexedSlices:
    """Converts gathered slices from `to_gather` back to their type."""
    slices = _without_fillers(slices)
    return tf.IndexedSlices(tf.cast(slices.values, dtype), slices.indices)


def _never_empty(slices: tf.IndexedSlices) -> tf.IndexedSlices:
    """Adds a filler row, with an index that no table has, to empty slices.

    TensorFlow crashes when it gathers slices and no replica has any row.
    """
    count = slices.indices.shape[0]
    # XLA knows all shapes, though only when it compiles.
    if count or tensorflow_internals.inside_xla():
        return slices

    def filler() -> tuple[tf.Tensor, tf.Tensor]:
        shape = [1, *slices.values.shape[1:]]
        return (
            tf.zeros(shape, slices.values.dtype),
            tf.constant([slices.indices.dtype.min], slices.indices.dtype),
        )

    return tf.IndexedSlices(
        *tf.cond(
            tf.equal(tf.shape(slices.indices)[0], 0),
            filler,
            lambda: (slices.values, slices.indices),
        )
    )


def _without_fillers(slices: tf.IndexedSlices) -> tf.IndexedSlices:
    """Removes the filler rows that `_never_empty` added."""
    if tensorflow_internals.inside_xla():
        return slices
    is_row = slices.indices != slices.indices.dtype.min
    values, indices = tf.cond(
        tf.reduce_all(is_row),
        lambda: (slices.values, slices.indices),
        lambda: (
            tf.boolean_mask(slices.values, is_row),
            tf.boolean_mask(slices.indices, is_row),
        ),
    )
    return tf.IndexedSlices(values, indices)
