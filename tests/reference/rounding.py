"""Random bits and rounding in NumPy, written from docs/random-bits.md.

Numbers are exact: Python's integers, and float64, in which every float32 and
its neighbours in 16 bits are. Only the types are ml_dtypes' and NumPy's.
"""

from typing import NamedTuple

import ml_dtypes
import numpy as np

TYPES = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
# Digits of the significand after the point, and the least exponent.
FORMATS = {"bfloat16": (7, -126), "float16": (10, -14)}


def mix64(z: int) -> int:
    z ^= z >> 30
    z = z * 0xBF58476D1CE4E5B9 % 2**64
    z ^= z >> 27
    z = z * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


class Key(NamedTuple):
    """The bits of a stream depend on this."""

    variable: int
    stream: int


def key(seed: int, iteration: int, variable: int, stream: int) -> Key:
    """The key of a stream of a variable."""
    state = 0
    for number in (seed, iteration, variable):
        state = mix64(((state ^ (number % 2**64)) + 0x9E3779B97F4A7C15) % 2**64)
    return Key(state, stream)


def word(key: int, w: int) -> int:
    """The w-th word, which all streams share."""
    x = (w + key) % 2**32
    x ^= x >> 16
    x = x * 0x21F0AAAD % 2**32
    x ^= x >> 15
    x = (x + (key >> 32) + (w >> 32) * 0x9E3779B9) % 2**32
    x = x * 0xD35A2D97 % 2**32
    return x ^ (x >> 15)


def bits(key: Key, element: int) -> int:
    both = word(key.variable, element // 2)
    shared = both >> 16 if element % 2 else both & 0xFFFF
    return shared * pow(51517, key.stream, 2**16) % 2**16


def all_bits(key: Key, size: int) -> np.ndarray:
    """Those of the elements 0 to `size` - 1."""
    return np.array([bits(key, element) for element in range(size)])


def neighbours(x: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """The greatest number of the type that is not above |x|, and the next.

    All x are finite and within the type's range.
    """
    digits, least = FORMATS[dtype]
    magnitude = np.abs(np.asarray(x, np.float64))
    exponents = np.frexp(magnitude)[1] - 1
    spacing = np.ldexp(1.0, np.maximum(exponents, least) - digits)
    below = np.floor(magnitude / spacing) * spacing
    return below, below + spacing


def stochastic(x: np.ndarray, dtype: str, bits: np.ndarray) -> np.ndarray:
    """Rounds float32 numbers with these bits.

    Up where the part of the spacing that is cut off, in units of 2^-16 (in
    float16's normal range of 2^-13, with as many bits), and the bits are a
    whole together.
    """
    x = np.asarray(x, np.float32)
    nearest = to_nearest(x, dtype)
    # Of float16 what is beyond the largest finite number goes to nearest.
    inside = np.isfinite(x)
    if dtype == "float16":
        inside &= np.abs(x) <= 65504
    safe = np.where(inside, x, np.float32(0))
    below, above = neighbours(safe, dtype)
    magnitude = np.abs(safe.astype(np.float64))
    drawn, whole = np.asarray(bits), np.full(x.shape, 2**16)
    if dtype == "float16":
        normal = magnitude >= 2.0**-14
        drawn = np.where(normal, drawn >> 3, drawn)
        whole = np.where(normal, 2**13, whole)
    part = np.floor((magnitude - below) / (above - below) * whole)
    rounded = np.where(part + drawn >= whole, above, below)
    with np.errstate(over="ignore"):
        rounded = np.copysign(rounded, safe).astype(TYPES[dtype])
    return np.where(inside, rounded, nearest)


def to_nearest(x: np.ndarray, dtype: str) -> np.ndarray:
    """Rounds to nearest even; a NaN is the positive quiet one."""
    with np.errstate(all="ignore"):
        rounded = np.asarray(x).astype(np.float32).astype(TYPES[dtype])
    nan = np.array({"bfloat16": 0x7FC0, "float16": 0x7E00}[dtype], np.uint16)
    return np.where(np.isnan(x), nan.view(TYPES[dtype]), rounded)
