"""What a step does around its rule, composed of TensorFlow's ops.

The formulas are those of `tf_opt.ops.StepFrame`; what is off costs no op.
"""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional.arithmetic import Scalar


def is_known(x: Scalar, number: float) -> bool:
    """Whether it is known, while a step is traced, to be this number."""
    # tf.is_tensor would take longer to answer than an op takes to run.
    return isinstance(x, (int, float, np.generic)) and bool(x == number)


def _times(factor: Scalar, x: tf.Tensor) -> tf.Tensor:
    if is_known(factor, 1):
        return x
    return tf.cast(arithmetic.float64(factor), x.dtype) * x


def accumulate(
    accumulated: tf.Tensor | None, gradient: tf.Tensor, scale: Scalar
) -> tf.Tensor:
    """What was accumulated, if anything was, and a gradient times `scale`.

    Args:
        accumulated: A sum of gradients, in the arithmetic's type.
        gradient: A gradient of the same shape.
        scale: A scalar.

    Returns:
        The new sum, in the arithmetic's type.
    """
    dtype = arithmetic.slot_dtype(gradient.dtype)
    scaled = _times(scale, tf.cast(gradient, dtype))
    return scaled if accumulated is None else accumulated + scaled


def finish_gradient(
    gradient: tf.Tensor, factor: Scalar, clip_value: Scalar
) -> tf.Tensor:
    """Multiplies a gradient, and clips its elements; a NaN stays one.

    Args:
        gradient: A tensor.
        factor: A scalar.
        clip_value: The greatest magnitude of an element; of a complex one, of
            its real and of its imaginary part.

    Returns:
        A tensor of its type.
    """
    gradient = _times(factor, gradient)
    if is_known(clip_value, math.inf):
        return gradient
    dtype = gradient.dtype
    gradient = arithmetic.as_real(gradient, dtype.real_dtype)
    bound = tf.cast(arithmetic.float64(clip_value), gradient.dtype)
    # Not clip_by_value, which under XLA drops NaNs.
    gradient = tf.where(gradient > bound, bound, gradient)
    gradient = tf.where(gradient < -bound, -bound, gradient)
    return arithmetic.from_real(gradient, dtype)


def moving_average(
    average: tf.Tensor, variable: tf.Tensor, momentum: Scalar
) -> tf.Tensor:
    """The average after the variable's new value.

    Args:
        average: The average so far, as it is stored.
        variable: The variable's new value.
        momentum: How much of the average stays, a scalar in [0, 1].

    Returns:
        The new average, in the arithmetic's type.
    """
    dtype = arithmetic.slot_dtype(variable.dtype)
    momentum = arithmetic.float64(momentum)
    kept = tf.cast(momentum, dtype) * tf.cast(average, dtype)
    return kept + tf.cast(1 - momentum, dtype) * tf.cast(variable, dtype)
