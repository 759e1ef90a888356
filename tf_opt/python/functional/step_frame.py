"""Frame of a step (scaling, clipping, averaging), made of TensorFlow's ops.

`tf_opt/cc/rules/step_frame.h` has the formulas. Features that are off add no
op.
"""

from __future__ import annotations

import math

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional.arithmetic import Scalar, is_known


def _times(factor: Scalar, x: tf.Tensor) -> tf.Tensor:
    if is_known(factor, 1):
        return x
    return tf.cast(arithmetic.float64(factor), x.dtype) * x


def accumulate(
    accumulated: tf.Tensor | None, gradient: tf.Tensor, scale: Scalar
) -> tf.Tensor:
    """Adds a scaled gradient to a sum, if any, in the arithmetic type."""
    dtype = arithmetic.slot_dtype(gradient.dtype)
    scaled = _times(scale, tf.cast(gradient, dtype))
    return scaled if accumulated is None else accumulated + scaled


def finish_gradient(
    gradient: tf.Tensor, factor: Scalar, clip_value: Scalar
) -> tf.Tensor:
    """Multiplies a gradient and clips its elements; NaNs stay NaNs.

    Of complex elements, real and imaginary parts are clipped.
    """
    gradient = _times(factor, gradient)
    if is_known(clip_value, math.inf):
        return gradient
    dtype = gradient.dtype
    gradient = arithmetic.as_real(gradient, dtype.real_dtype)
    bound = tf.cast(arithmetic.float64(clip_value), gradient.dtype)
    # tf.clip_by_value drops NaNs under XLA.
    gradient = tf.where(gradient > bound, bound, gradient)
    gradient = tf.where(gradient < -bound, -bound, gradient)
    return arithmetic.from_real(gradient, dtype)


def moving_average(
    average: tf.Tensor, variable: tf.Tensor, momentum: Scalar
) -> tf.Tensor:
    """Returns an average after a new value, in the arithmetic type.

    `momentum` is the old average's weight.
    """
    dtype = arithmetic.slot_dtype(variable.dtype)
    momentum = arithmetic.float64(momentum)
    kept = tf.cast(momentum, dtype) * tf.cast(average, dtype)
    return kept + tf.cast(1 - momentum, dtype) * tf.cast(variable, dtype)
