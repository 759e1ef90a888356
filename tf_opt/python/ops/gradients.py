"""Conversion of gradients to the inputs of an op."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tf_opt.python.functional.tensors import TensorLike
from tf_opt.python.functional.tensors import to_tensor

# The types that have kernels, the most frequent one first.
DTYPES = (tf.float32, tf.bfloat16, tf.float16, tf.float64)


def are_slices(gradients: Sequence[TensorLike | tf.IndexedSlices]) -> bool:
    """Whether the gradients are `tf.IndexedSlices`.

    Args:
        gradients: The user's gradients, at least one.

    Raises:
        ValueError: If some are slices and some are dense.
    """
    kinds = {isinstance(gradient, tf.IndexedSlices) for gradient in gradients}
    if len(kinds) > 1:
        raise ValueError(
            "`gradients` must all be `tf.IndexedSlices` or all be dense. "
            "Received: both"
        )
    return kinds.pop()


def slices_as_inputs(
    slices: Sequence[tf.IndexedSlices],
    accumulated_rows: Sequence[TensorLike],
    dtype: tf.DType | None,
    whose: str = "variables",
) -> dict[str, list[tf.Tensor]]:
    """Converts slices to the inputs of a sparse op.

    Args:
        slices: The gradients.
        accumulated_rows: For each gradient, the indices of more rows to update.
            Or empty.
        dtype: The variables' type; see `to_tensors`.
        whose: The argument that has this type; see `to_tensors`.

    Returns:
        The op's inputs by name.

    Raises:
        ValueError: If values have another type, or indices aren't integers.
    """
    values = [x.values for x in slices]
    indices = [
        _to_indices(f"gradients[{i}].indices", x.indices)
        for i, x in enumerate(slices)
    ]
    more = [
        _to_indices(f"accumulated_rows[{i}]", x)
        for i, x in enumerate(accumulated_rows)
    ]
    if len({x.dtype for x in (*indices, *more)}) > 1:
        indices, more = (
            [tf.cast(x, tf.int64) for x in rows] for rows in (indices, more)
        )
    return {
        "gradients": to_tensors(values, dtype, whose),
        "indices": indices,
        "accumulated_rows": more,
    }


def _to_indices(name: str, rows: TensorLike) -> tf.Tensor:
    """Converts row indices to a type that has kernels."""
    rows = tf.convert_to_tensor(rows)
    if not rows.dtype.is_integer:
        raise ValueError(
            f"`{name}` must be integers. Received: {rows.dtype.name}"
        )
    if rows.dtype in (tf.int32, tf.int64):
        return rows
    return tf.cast(rows, tf.int64)


def to_tensors(
    gradients: Sequence[TensorLike],
    dtype: tf.DType | None,
    whose: str = "variables",
) -> list[tf.Tensor]:
    """Converts gradients to tensors of one type.

    Args:
        gradients: The user's gradients, at least one. Numbers without a
            TensorFlow type, such as those in lists and NumPy arrays, get
            `dtype`.
        dtype: The variables' type. None: the first gradient's type.
        whose: The argument that has this type, for errors.

    Returns:
        A tensor for each gradient.

    Raises:
        ValueError: If a gradient isn't a tensor or has another type, or the
            type has no kernels.
    """
    if dtype is None:
        dtype = to_tensor("gradients[0]", gradients[0]).dtype
    if dtype not in DTYPES:
        names = ", ".join(dtype.name for dtype in DTYPES)
        raise ValueError(
            f"`{whose}` must have one of the types {names}. Received: "
            f"{dtype.name}"
        )
    tensors = [
        to_tensor(f"gradients[{i}]", gradient, dtype)
        for i, gradient in enumerate(gradients)
    ]
    for i, tensor in enumerate(tensors):
        # Equal types are mostly one object, and `!=` is slow.
        if tensor.dtype is not dtype and tensor.dtype != dtype:
            raise ValueError(
                f"`gradients[{i}]` must be a tensor of the {whose}' type, "
                f"{dtype.name}. Received: {tensor.dtype.name}"
            )
    return tensors
