"""`tf.IndexedSlices` whose rows occur more than once."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_opt.python import tensorflow_internals
from tf_opt.python.functional import arithmetic


class MergedSlices(NamedTuple):
    """A gradient's rows, sorted, each with the sum of all that is said of it.

    The shapes are those of the slices, so that XLA knows them: a row that
    occurs three times stands there three times, each time with its sum.

    Attributes:
        rows: Which row each one is, sorted.
        sums: The sums.
        is_first: Whether it is the first of its row.
    """

    rows: tf.Tensor
    sums: tf.Tensor
    is_first: tf.Tensor

    def once(self) -> tf.Tensor:
        """The sums, zero where a row stands for the second time."""
        shape = [-1] + [1] * (self.sums.shape.rank - 1)
        return tf.where(
            tf.reshape(self.is_first, shape),
            self.sums,
            tf.zeros((), self.sums.dtype),
        )


def merge(values: tf.Tensor, indices: tf.Tensor) -> MergedSlices:
    """Sums what is said of each row, in the order in which it is said.

    Args:
        values: The rows.
        indices: Which row of a table each is, a vector.

    Returns:
        The sums, in the type of `values`; they are formed in the type of the
        arithmetic.
    """
    order = tf.argsort(indices, stable=True)
    rows = tf.gather(indices, order)
    is_first = tf.concat(
        [tf.ones_like(rows[:1], tf.bool), rows[1:] != rows[:-1]], axis=0
    )
    if rows.shape[0] is None and tensorflow_internals.inside_xla():
        # XLA's running sum is wrong where only an op knows how many there are.
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


def empty(variable: tf.Variable) -> tf.IndexedSlices:
    """The gradient of a variable that says nothing of any row."""
    return tf.IndexedSlices(
        tf.zeros([0, *variable.shape[1:]], variable.dtype),
        tf.zeros([0], tf.int64),
    )


def without_elements(slices: tf.IndexedSlices) -> tf.IndexedSlices:
    """The same rows, each without anything in it."""
    values = tf.expand_dims(slices.values, 1)[:, :0]
    return tf.IndexedSlices(values, slices.indices)


def _filler(dtype: tf.DType) -> int:
    """A row that no table has, and nobody says by mistake."""
    return dtype.min


def rows_of_all_replicas(rows: tf.Tensor) -> tf.Tensor:
    """In a replica: what each replica says, one after the other, in int64."""
    # TensorFlow crashes where no replica says anything.
    filled = tf.concat([tf.cast(rows, tf.int64), [_filler(tf.int64)]], axis=0)
    context = tf.distribute.get_replica_context()
    gathered = context.all_gather(filled, axis=0)
    return tf.boolean_mask(gathered, gathered != _filler(tf.int64))


def to_gather(slices: tf.IndexedSlices) -> tf.IndexedSlices:
    """What may be gathered from all replicas: no bfloat16, nothing complex."""
    dtype = slices.values.dtype
    if dtype == tf.bfloat16 or dtype.is_complex:
        real = arithmetic.slot_dtype(dtype).real_dtype
        values = arithmetic.as_real(slices.values, real)
        slices = tf.IndexedSlices(values, slices.indices)
    return _never_empty(slices)


def gathered(slices: tf.IndexedSlices, dtype: tf.DType) -> tf.IndexedSlices:
    """What was gathered of that, in the type that it had."""
    slices = _without_fillers(slices)
    values = arithmetic.from_real(slices.values, dtype)
    return tf.IndexedSlices(values, slices.indices)


def _never_empty(slices: tf.IndexedSlices) -> tf.IndexedSlices:
    """The same, or a filler if there is no row.

    TensorFlow crashes where slices are gathered of which no replica has any.
    """
    count = slices.indices.shape[0]
    # XLA knows all shapes, though perhaps not yet.
    if count or tensorflow_internals.inside_xla():
        return slices

    def filler() -> tuple[tf.Tensor, tf.Tensor]:
        shape = [1, *slices.values.shape[1:]]
        return (
            tf.zeros(shape, slices.values.dtype),
            tf.constant([_filler(slices.indices.dtype)], slices.indices.dtype),
        )

    if count == 0:
        return tf.IndexedSlices(*filler())
    return tf.IndexedSlices(
        *tf.cond(
            tf.equal(tf.shape(slices.indices)[0], 0),
            filler,
            lambda: (slices.values, slices.indices),
        )
    )


def _without_fillers(slices: tf.IndexedSlices) -> tf.IndexedSlices:
    """The same without what `_never_empty` put in."""
    if tensorflow_internals.inside_xla():
        return slices
    said = slices.indices != _filler(slices.indices.dtype)
    values, indices = tf.cond(
        tf.reduce_all(said),
        lambda: (slices.values, slices.indices),
        lambda: (
            tf.boolean_mask(slices.values, said),
            tf.boolean_mask(slices.indices, said),
        ),
    )
    return tf.IndexedSlices(values, indices)
