"""Rounding to 16-bit floats, to nearest or at random, with TensorFlow's ops.

It uses integer arithmetic, because XLA may remove a cast to 16 bits and back,
and processors may treat subnormal numbers as zero. The formulas are in
docs/random-bits.md.
"""

from __future__ import annotations

import tensorflow as tf

# Bits of a float32 without its sign.
_MAGNITUDE = 0x7FFFFFFF
_INFINITY = 0x7F800000
_SMALLEST_NORMAL_HALF = 113 << 23  # 2^-14.
_LARGEST_HALF = 0x477FE000  # 65504.
# Difference of the exponents' biases in float32 and float16.
_REBIAS = 112 << 10

_right = tf.bitwise.right_shift


def is_16_bit(dtype: tf.DType | str) -> bool:
    """Whether a type is float16 or bfloat16."""
    return tf.dtypes.as_dtype(dtype) in (tf.float16, tf.bfloat16)


def bits_of(x: tf.Tensor) -> tf.Tensor:
    """Returns the bits of a float in uint32; float64 is cast to float32."""
    if is_16_bit(x.dtype):
        return tf.cast(tf.bitcast(x, tf.uint16), tf.uint32)
    return tf.bitcast(tf.cast(x, tf.float32), tf.uint32)


def _float_of(bits: tf.Tensor, sign: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    return tf.bitcast(tf.cast(bits | sign, tf.uint16), dtype)


def _parts(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the float32's magnitude and the sign bit of a 16-bit float."""
    bits = bits_of(x)
    magnitude = bits & _MAGNITUDE
    # All NaNs are stored as the same one, without a sign.
    sign = tf.where(magnitude <= _INFINITY, _right(bits, 16) & 0x8000, 0)
    return magnitude, sign


def _nearest(magnitude: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    if dtype == tf.bfloat16:
        odd = _right(magnitude, 16) & 1
        rounded = _right(magnitude + 0x7FFF + odd, 16)
        return tf.where(magnitude <= _INFINITY, rounded, 0x7FC0)
    odd = _right(magnitude, 13) & 1
    rounded = _right(magnitude + 0xFFF + odd, 13) - _REBIAS
    # Adding 0.5 rounds a subnormal and moves its bits to the low end.
    half = tf.constant(0.5)
    small = tf.minimum(magnitude, _SMALLEST_NORMAL_HALF)
    subnormal = bits_of(tf.bitcast(small, tf.float32) + half) - bits_of(half)
    rounded = tf.where(magnitude < _SMALLEST_NORMAL_HALF, subnormal, rounded)
    rounded = tf.where(magnitude < 143 << 23, rounded, 0x7C00)
    return tf.where(magnitude <= _INFINITY, rounded, 0x7E00)


def to_nearest(x: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Rounds to float16 or bfloat16, ties to even; NaNs are canonical."""
    magnitude, sign = _parts(x)
    return _float_of(_nearest(magnitude, dtype), sign, dtype)


def as_held_by(x: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Rounds to the nearest number of a narrower type, and keeps its own type.

    The gradient is that of a cast. A type that isn't narrower changes nothing.
    """
    if dtype.size >= x.dtype.size:
        return x
    if not is_16_bit(dtype):
        return tf.cast(tf.cast(x, dtype), x.dtype)

    @tf.custom_gradient
    def through(x: tf.Tensor):
        rounded = tf.cast(to_nearest(x, dtype), x.dtype)
        return rounded, lambda upstream: upstream

    return through(x)


def at_random(x: tf.Tensor, dtype: tf.DType, bits: tf.Tensor) -> tf.Tensor:
    """Rounds to one of the two neighbours at random, so that the mean is `x`.

    `bits` has 16 random bits for each element, in uint32. float64 is rounded
    to float32 first, and NaNs become canonical. Values beyond the largest
    finite float16 are rounded to nearest, because no mean is right if one
    neighbour is infinite.
    """
    magnitude, sign = _parts(x)
    if dtype == tf.bfloat16:
        rounded = _right(magnitude + bits, 16)
        to_nearest_from = _INFINITY
    else:
        rounded = _right(magnitude + _right(bits, 3), 13) - _REBIAS
        # The value in units of 2^-16 of the spacing of subnormals; the cast
        # cuts off the rest.
        small = tf.minimum(magnitude, _SMALLEST_NORMAL_HALF)
        units = tf.bitcast(small, tf.float32) * tf.constant(2.0**40)
        subnormal = _right(tf.cast(units, tf.uint32) + bits, 16)
        rounded = tf.where(
            magnitude < _SMALLEST_NORMAL_HALF, subnormal, rounded
        )
        to_nearest_from = _LARGEST_HALF
    rounded = tf.where(
        magnitude > to_nearest_from, _nearest(magnitude, dtype), rounded
    )
    return _float_of(rounded, sign, dtype)


def is_same(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Compares two tensors of a 16-bit type, element by element.

    Zeros of both signs are equal, and so are all NaNs.
    """
    infinity = 0x7F80 if a.dtype == tf.bfloat16 else 0x7C00
    a, b = bits_of(a), bits_of(b)

    def both(condition) -> tf.Tensor:
        return condition(a & 0x7FFF) & condition(b & 0x7FFF)

    return (
        tf.equal(a, b)
        | both(lambda magnitude: tf.equal(magnitude, 0))
        | both(lambda magnitude: magnitude > infinity)
    )
