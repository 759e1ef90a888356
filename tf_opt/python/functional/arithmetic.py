"""Arithmetic of rules and steps: its type, and views as real numbers.

Numbers and booleans are Python's or tensors. Eager steps on a CPU use Python's,
which cost no op.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python.tensorflow_internals import constant

# A number, or an object with one element that TensorFlow converts to a tensor.
Scalar = (
    float
    | int
    | np.number
    | np.ndarray
    | tf.Tensor
    | tf.Variable
    | keras.Variable
)
# A tensor, or an object that TensorFlow converts to one.
TensorLike = (
    tf.Tensor
    | tf.Variable
    | keras.Variable
    | np.ndarray
    | Sequence[Any]
    | float
)
Flag = bool | tf.Tensor


def float64(x: Scalar) -> tf.Tensor:
    """Converts a scalar to float64."""
    if isinstance(x, (int, float)):
        # tf.cast would take a Python float through float32.
        return constant(x, tf.float64)
    return tf.cast(tf.convert_to_tensor(x), tf.float64)


def is_known(x: Scalar, number: float) -> bool:
    """Whether `x` is known to be this number while a step is traced."""
    # tf.is_tensor takes longer than an op takes to run.
    return isinstance(x, (int, float, np.generic)) and bool(x == number)


def equal(a: Scalar, b: Scalar) -> bool | tf.Tensor:
    """Returns whether two numbers are equal.

    After `tf.compat.v1.disable_tensor_equality()`, `==` compares the identity
    of tensors.
    """
    return tf.equal(a, b) if isinstance(a, tf.Tensor) else a == b


def both(a: Flag, b: Flag) -> Flag:
    """Returns whether both are true."""
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return a & b


def choose(condition: Flag, new: Any, old: Any) -> Any:
    """Returns `new` where the condition holds, else `old`."""
    if isinstance(condition, bool):
        return new if condition else old
    new, old = (
        float64(x) if isinstance(x, (int, float)) else tf.convert_to_tensor(x)
        for x in (new, old)
    )
    return tf.where(condition, new, old)


def cond(
    condition: Flag,
    do: Callable[[], Any],
    otherwise: Callable[[], Any] = lambda: None,
) -> Any:
    """Calls one of two functions, and in a graph adds both to a condition."""
    if isinstance(condition, bool):
        return do() if condition else otherwise()
    return tf.cond(condition, do, otherwise)


def of_scalars(
    function: Callable[..., Scalar],
) -> Callable[..., float | tf.Tensor]:
    """Decorates a function that takes scalars by name, in float64.

    Of Python's numbers NumPy computes it, which takes no op, and doesn't warn
    where TensorFlow doesn't.
    """

    @functools.wraps(function)
    def compute(**scalars: Scalar | None) -> float | tf.Tensor:
        known = {
            name: np.float64(x) if isinstance(x, (int, float)) else float64(x)
            for name, x in scalars.items()
            if x is not None
        }
        with np.errstate(all="ignore"):
            value = function(**known)
        return float(value) if isinstance(value, float) else value

    return compute


def kept_part(step_size: Scalar, decay: Scalar) -> tf.Tensor:
    """Returns the factor that a decay leaves of a variable, in float64.

    Without decay it is 1, even if the step size is infinite and their product
    NaN.
    """
    return 1 - tf.math.multiply_no_nan(float64(step_size), float64(decay))


def with_decay(
    direction: tf.Tensor, variable: tf.Tensor, decay: tf.Tensor | None
) -> tf.Tensor:
    """Adds a decay to a direction; one that is None or 0 changes nothing."""
    if decay is None:
        return direction
    decay = tf.cast(-decay, variable.dtype)
    return direction - tf.math.multiply_no_nan(variable, decay)


class OncePerGraph:
    """Cache of tensors that several variables of a step share."""

    def __init__(self) -> None:
        """Starts with an empty cache."""
        self._found: dict[tuple[Hashable, tf.Graph | None], Any] = {}

    def __call__(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns the value of a key, computed by `make` the first time."""
        graph = None
        if not tf.executing_eagerly():
            # The branches of a condition are graphs of their own, which can't
            # use each other's tensors.
            graph = tf.compat.v1.get_default_graph()
        if (key, graph) not in self._found:
            self._found[key, graph] = make()
        return self._found[key, graph]


def slot_dtype(dtype: tf.DType) -> tf.DType:
    """Returns the arithmetic type of a variable, which is also its slots'.

    float32 for 16-bit floats: in bfloat16, 0.999 would be 1. The variable's
    type for all others, complex ones included.
    """
    dtype = tf.dtypes.as_dtype(dtype)
    return tf.float32 if dtype in (tf.float16, tf.bfloat16) else dtype


def widest_real(dtypes: Iterable[tf.DType | str]) -> tf.DType:
    """Returns the type for a scalar that variables of these types share."""
    widths = {slot_dtype(dtype).real_dtype for dtype in dtypes}
    return tf.float64 if tf.float64 in widths else tf.float32


def may_be_matrix(x: Any) -> bool:
    """Returns whether the last two axes of a tensor may be a matrix."""
    is_complex = tf.dtypes.as_dtype(x.dtype).is_complex
    return not is_complex and len(x.shape) >= 2


def as_real(tensor: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Casts a tensor to a real type; a complex number becomes two reals."""
    if tensor.dtype.is_complex:
        tensor = tf.stack([tf.math.real(tensor), tf.math.imag(tensor)], axis=-1)
    return tf.cast(tensor, dtype)


def from_real(tensor: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Casts a tensor of reals to `dtype`: the inverse of `as_real`."""
    if dtype.is_complex:
        return tf.complex(tensor[..., 0], tensor[..., 1])
    return tf.cast(tensor, dtype)


def as_slot(x: Scalar, dtype: tf.DType) -> tf.Tensor:
    """Casts a number to a slot's type; both parts of a complex one are it."""
    parts = tf.cast(tf.repeat(float64(x), 2), dtype.real_dtype)
    return from_real(parts, dtype) if dtype.is_complex else parts[0]


def sum_of_squares(x: tf.Tensor) -> tf.Tensor:
    """Returns the sum of the squares of real numbers, in one pass."""
    return 2 * tf.nn.l2_loss(x)


def mean_square_of_rows(x: tf.Tensor) -> tf.Tensor:
    """Returns the mean square of each row, summed in float64."""
    squares = tf.square(tf.cast(x, tf.float64))
    sums = tf.reduce_sum(squares, axis=tf.range(1, tf.rank(x)))
    width = tf.maximum(tf.reduce_prod(tf.shape(x, tf.int64)[1:]), 1)
    return tf.cast(sums / tf.cast(width, tf.float64), x.dtype)


def of_rows(numbers: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
    """Reshapes a table's numbers, one for each row, to broadcast to it."""
    rank = table.shape.rank
    if rank is not None:
        return tf.reshape(numbers, [-1] + [1] * (rank - 1))
    # In a rule's kept function.
    ones = tf.ones([tf.rank(table) - 1], tf.int32)
    return tf.reshape(numbers, tf.concat([[-1], ones], axis=0))


def differentiable_sqrt(x: tf.Tensor) -> tf.Tensor:
    """Computes the square root; at 0, derivatives of every order are 0.

    The true derivatives at 0 are infinite. For a second moment they are
    multiplied by the derivatives of a squared gradient, which are zero there:
    the product should be 0 and would be NaN. Works in forward and reverse mode
    and takes three more ops than `tf.sqrt`.
    """
    zero, one = tf.constant(0, x.dtype), tf.constant(1, x.dtype)
    is_zero = tf.equal(x, zero)
    # The derivative multiplies the branch that isn't selected by zero, so that
    # branch must be finite.
    return tf.where(is_zero, zero, tf.sqrt(tf.where(is_zero, one, x)))
