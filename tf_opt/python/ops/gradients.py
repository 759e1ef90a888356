"""Gradients as the tensors that an op takes."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tf_opt.python.functional.tensors import TensorLike
from tf_opt.python.functional.tensors import to_tensor

# Those that there are kernels for, the most frequent first.
DTYPES = (tf.float32, tf.bfloat16, tf.float16, tf.float64)


def to_tensors(
    gradients: Sequence[TensorLike],
    dtype: tf.DType | None,
    whose: str = "variables",
) -> list[tf.Tensor]:
    """The gradients as tensors of one type.

    Args:
        gradients: What the user gave, at least one. Numbers that have no
            TensorFlow type yet, as in lists and NumPy arrays, get `dtype`.
        dtype: The variables' type; None if unknown: the first gradient's.
        whose: The argument that has this type, for errors.

    Returns:
        A tensor for each.

    Raises:
        ValueError: If one isn't a tensor, or of another type, or there are no
            kernels for that type.
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
        # Types are mostly one object, and `!=` is slow.
        if tensor.dtype is not dtype and tensor.dtype != dtype:
            raise ValueError(
                f"`gradients[{i}]` must be a tensor of the {whose}' type, "
                f"{dtype.name}. Received: {tensor.dtype.name}"
            )
    return tensors
