"""Random bits of stochastic rounding.

They are a function of (seed, step, variable, stream, element), so they are
the same on every device and for every number of threads; docs/random-bits.md
has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf

from tf_opt.python.tensorflow_internals import constant

Integer = int | tf.Tensor

# Streams of random bits, one for each value of a variable that is rounded.
VARIABLE = 0
AVERAGE = 3
FIRST_SLOT = 5
# The offset of the streams of rows that catch up before the step.
COASTING = 16

# The factor from a stream's bits to the next stream's, modulo 2^16
# (cc/rules/random_bits.h gives the reason).
_STREAM_FACTOR = 51517

_MASK_32 = 0xFFFFFFFF
_MASK_64 = 0xFFFFFFFFFFFFFFFF


# Key of the random bits of one stream of a variable: the variable's key, which
# its streams share (an int or a uint64 scalar), and the number of the stream.
Key = tuple[Integer, int]


def _mix64(z: Integer) -> Integer:
    """Mixes 64 bits: a bijection in which every bit depends on all bits."""
    for shift, factor in (
        (30, 0xBF58476D1CE4E5B9),
        (27, 0x94D049BB133111EB),
        (31, 1),
    ):
        if isinstance(z, int):
            z = ((z ^ (z >> shift)) * factor) & _MASK_64
        else:
            z = _xor_right(z, shift) * factor
    return z


def _xor_right(x: tf.Tensor, count: int) -> tf.Tensor:
    return x ^ tf.bitwise.right_shift(x, count)


def _uint64(x: Integer) -> tf.Tensor:
    if isinstance(x, tf.Tensor):
        return tf.bitcast(tf.cast(x, tf.int64), tf.uint64)
    return constant(x & _MASK_64, tf.uint64)


def extend(key: Integer, number: Integer) -> Integer:
    """Returns a key that depends on one more integer.

    It is an int if both arguments are, otherwise a uint64 scalar.
    """
    increment = 0x9E3779B97F4A7C15
    if isinstance(key, int) and isinstance(number, int):
        return _mix64(((key ^ (number & _MASK_64)) + increment) & _MASK_64)
    key = key if isinstance(key, tf.Tensor) else _uint64(key)
    return _mix64((key ^ _uint64(number)) + increment)


def key_of_step(seed: int, iteration: Integer) -> Integer:
    """Returns the key of the step that has `iteration` steps before it."""
    return extend(extend(0, seed), iteration)


def key_of_stream(step: Integer, variable_number: int, stream: int) -> Key:
    """Returns the key of one stream of a variable, from `key_of_step`.

    The variable's number is its position in the optimizer's list. The stream
    is one of the constants of this module or a slot's.
    """
    return extend(step, variable_number), stream


def _halves(key: Integer) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the low and the high 32 bits of a key."""
    key = key if isinstance(key, tf.Tensor) else _uint64(key)
    high = tf.bitwise.right_shift(key, 32)
    return tf.cast(key & _MASK_32, tf.uint32), tf.cast(high, tf.uint32)


def _words(key: Integer, indices: tf.Tensor) -> tf.Tensor:
    """Computes words, in uint32, that all streams of a variable share."""
    low_key, high_key = _halves(key)
    low, high = _halves(_uint64(indices))
    x = _xor_right(low + low_key, 16) * 0x21F0AAAD
    x = _xor_right(x, 15)
    x += high_key + high * 0x9E3779B9
    return _xor_right(x * 0xD35A2D97, 15)


def _low_and_high(words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return words & 0xFFFF, tf.bitwise.right_shift(words, 16)


def bits_of(
    key: Key, shape: Sequence[int], rows: tf.Tensor | None = None
) -> tf.Tensor:
    """Computes 16 random bits, in uint32, for each element of a variable.

    If `rows` isn't None, it does so only for these rows. `shape` is the whole
    variable's.
    """
    variable, stream = key
    if rows is None:
        size = math.prod(shape)
        # An even element gets the low half of a word, the next one the high
        # half.
        words = _words(variable, tf.range((size + 1) // 2, dtype=tf.int64))
        shared = tf.reshape(tf.stack(_low_and_high(words), 1), [-1])[:size]
    else:
        width = math.prod(shape[1:])
        elements = (
            tf.cast(rows, tf.int64)[:, None] * width
            + tf.range(width, dtype=tf.int64)[None]
        )
        low, high = _low_and_high(_words(variable, elements // 2))
        shared = tf.where(tf.equal(elements % 2, 1), high, low)
        shape = [-1, *shape[1:]]
    bits = (shared * pow(_STREAM_FACTOR, stream, 2**16)) & 0xFFFF
    return tf.reshape(bits, shape)
