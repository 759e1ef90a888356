"""What the functional rules share: the type they compute in, and real views."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

# A number, or anything with one element that TensorFlow makes a tensor of.
Scalar = (
    float
    | int
    | np.number
    | np.ndarray
    | tf.Tensor
    | tf.Variable
    | keras.Variable
)


def float64(x: Scalar) -> tf.Tensor:
    """A scalar of a step, in float64."""
    if isinstance(x, (int, float)):
        # tf.cast would take a Python float through float32.
        return tf.constant(x, tf.float64)
    return tf.cast(tf.convert_to_tensor(x), tf.float64)


class OncePerGraph:
    """Computes what several variables of a step share once, not for each."""

    def __init__(self) -> None:
        """Nothing is computed yet."""
        self._found: dict[tuple[Hashable, tf.Graph | None], Any] = {}

    def __call__(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What `make` returns, the first time that `key` is asked for."""
        graph = None
        if not tf.executing_eagerly():
            # One graph can't use what another one, of a condition, computed.
            graph = tf.compat.v1.get_default_graph()
        if (key, graph) not in self._found:
            self._found[key, graph] = make()
        return self._found[key, graph]


class StepScalar:
    """A scalar that all variables of a step share.

    It is computed in float64 and rounded to each type in which it is used.
    """

    def __init__(self, value: tf.Tensor) -> None:
        """Keeps a scalar in float64."""
        self._value = value
        self._once = OncePerGraph()

    def to(self, dtype: tf.DType) -> tf.Tensor:
        """The scalar in a real type."""
        return self._once(dtype, lambda: tf.cast(self._value, dtype))


def slot_dtype(dtype: tf.DType) -> tf.DType:
    """The type of the arithmetic, and of a variable's moments by default.

    float32 for 16-bit floats (in bfloat16 0.999 is 1, and a step is zero), the
    variable's own type for the others, complex ones included.
    """
    dtype = tf.dtypes.as_dtype(dtype)
    return tf.float32 if dtype in (tf.float16, tf.bfloat16) else dtype


def widest_real(dtypes: Iterable[tf.DType | str]) -> tf.DType:
    """The type of a scalar that the steps of variables of these types share."""
    widths = {slot_dtype(dtype).real_dtype for dtype in dtypes}
    return tf.float64 if tf.float64 in widths else tf.float32


def as_real(tensor: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """`tensor` in real type `dtype`; complex numbers as pairs of reals."""
    if tensor.dtype.is_complex:
        tensor = tf.stack([tf.math.real(tensor), tf.math.imag(tensor)], axis=-1)
    return tf.cast(tensor, dtype)


def from_real(tensor: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """The inverse of `as_real`: `tensor` in the type `dtype`."""
    if dtype.is_complex:
        return tf.complex(tensor[..., 0], tensor[..., 1])
    return tf.cast(tensor, dtype)


def as_given(result: Any, **given: tf.Tensor) -> Any:
    """What a rule returned, in the types of what it was given.

    Args:
        result: A named tuple of tensors in the arithmetic's type.
        **given: For some of its fields, a tensor of the type to have.

    Returns:
        The tuple with those, rounded to nearest where they are narrower.
    """
    return result._replace(
        **{
            name: tf.cast(getattr(result, name), tensor.dtype)
            for name, tensor in given.items()
        }
    )


def differentiable_sqrt(x: tf.Tensor) -> tf.Tensor:
    """The square root, whose derivatives of every order are 0 at 0.

    There they are infinite, and those of a second moment are multiplied by
    those of its gradient, which are zero: the product should be 0 and would be
    NaN. In forward and in reverse mode, and by three ops more than `tf.sqrt`.
    """
    zero, one = tf.constant(0, x.dtype), tf.constant(1, x.dtype)
    is_zero = tf.equal(x, zero)
    # What a select leaves out counts zero times, so it has to be finite.
    return tf.where(is_zero, zero, tf.sqrt(tf.where(is_zero, one, x)))
