"""Gradients as the tensors that an op takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

# What an op's wrapper accepts as a gradient.
GradientLike = (
    tf.Tensor | tf.Variable | keras.Variable | np.ndarray | Sequence[Any]
)


def to_tensors(
    gradients: Sequence[GradientLike], dtype: tf.DType | None
) -> list[tf.Tensor]:
    """The gradients as tensors of one type.

    Args:
        gradients: What the user gave, at least one. Numbers that have no
            TensorFlow type yet, as in lists and NumPy arrays, get `dtype`.
        dtype: The variables' type; None if unknown: the first gradient's.

    Returns:
        A tensor for each.

    Raises:
        ValueError: If one isn't a tensor, or of another type.
    """
    tensors = [
        gradient
        if isinstance(gradient, tf.Tensor)
        else _to_tensor(gradient, i, dtype)
        for i, gradient in enumerate(gradients)
    ]
    expected = dtype or tensors[0].dtype
    for i, tensor in enumerate(tensors):
        # Types are mostly one object, and `!=` is slow.
        if tensor.dtype is not expected and tensor.dtype != expected:
            raise ValueError(
                f"`gradients[{i}]` must be a tensor of the variables' type, "
                f"{expected.name}. Received: {tensor.dtype.name}"
            )
    return tensors


def _to_tensor(
    gradient: GradientLike, index: int, dtype: tf.DType | None
) -> tf.Tensor:
    """A tensor of `dtype`, except from what has a TensorFlow type already."""
    if isinstance(gradient, (tf.Variable, keras.Variable, tf.IndexedSlices)):
        dtype = None
    try:
        return tf.convert_to_tensor(gradient, dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`gradients[{index}]` must be a tensor, or what TensorFlow makes "
            f"one of. Received: {gradient!r}"
        ) from error
