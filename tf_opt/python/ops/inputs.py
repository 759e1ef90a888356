"""Conversion of the user's variables and gradients to the inputs of an op."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python.functional.tensors import TensorLike
from tf_opt.python.functional.tensors import to_tensor
from tf_opt.python.ops import library

# A variable for an op's wrapper: of TensorFlow or Keras, or a handle (of a
# VariableGroup, for example).
VariableLike = tf.Variable | keras.Variable | tf.Tensor

# The types that have kernels, the most frequent one first.
DTYPES = (tf.float32, tf.bfloat16, tf.float16, tf.float64)

# These can be iterated over, but they are single elements of a list.
_ONE = (tf.Tensor, tf.Variable, keras.Variable, np.ndarray, str, bytes)


def to_list(values: Iterable[Any], argument: str, of: str) -> Sequence[Any]:
    """Converts an iterable to a list, unless it is a list or tuple.

    Raises a TypeError that names the argument and its elements if it can't be
    iterated over, or is a single element.
    """
    if isinstance(values, (list, tuple)):
        return values
    if isinstance(values, _ONE) or not isinstance(values, Iterable):
        raise TypeError(
            f"`{argument}` must be a list of {of}. Received: {values!r}"
        )
    return list(values)


def to_handles(
    argument: str,
    variables: Sequence[VariableLike],
    count: int,
    *,
    may_be_empty: bool,
) -> list[tf.Tensor]:
    """Returns the handles of variables: one for each gradient, or one group's.

    Raises a TypeError if an element isn't a variable, and a ValueError if
    there is another number of variables.
    """
    handles = [
        # First the usual case, because this runs in every eager step.
        handle
        if (handle := getattr(variable, "handle", None)) is not None
        else _check_handle(f"{argument}[{i}]", variable)
        for i, variable in enumerate(variables)
    ]
    is_group = len(variables) == 1 and isinstance(variables[0], tf.Tensor)
    is_absent = may_be_empty and not variables
    if len(variables) != count and not is_group and not is_absent:
        raise ValueError(
            f"`{argument}` must have one variable for each of the {count} "
            f"`gradients`, got {len(variables)}"
        )
    return handles


def _check_handle(element: str, value: VariableLike) -> tf.Tensor:
    if not isinstance(value, tf.Tensor) or value.dtype != tf.resource:
        raise TypeError(f"`{element}` must be a variable. Received: {value!r}")
    return value


def common_dtype(variables: Sequence[VariableLike]) -> tf.DType | None:
    """Returns the type of all variables, or None if it differs or is unknown.

    The type is unknown if a variable is passed as a handle.
    """
    # The types of Keras variables are strings.
    named = {variable.dtype for variable in variables}
    dtypes = {tf.dtypes.as_dtype(dtype) for dtype in named}
    if len(dtypes) > 1 or tf.resource in dtypes:
        return None
    return dtypes.pop()


def are_slices(gradients: Sequence[TensorLike | tf.IndexedSlices]) -> bool:
    """Whether the gradients are `tf.IndexedSlices`.

    Raises a ValueError if there are none, or some are slices and some are
    dense.
    """
    if not gradients:
        raise ValueError("`gradients` must not be empty")
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
    """Converts slices to the inputs of a sparse op, by name.

    `accumulated_rows` has for each gradient the indices of more rows to
    update; or it is empty. For the other arguments and errors see
    `to_tensors`.
    """
    indices = [
        _to_indices(f"gradients[{i}].indices", x.indices)
        for i, x in enumerate(slices)
    ]
    more = [
        _to_indices(f"accumulated_rows[{i}]", x)
        for i, x in enumerate(accumulated_rows)
    ]
    # The types of indices that have kernels.
    if {x.dtype for x in (*indices, *more)} not in ({tf.int32}, {tf.int64}):
        indices, more = (
            [tf.cast(x, tf.int64) for x in rows] for rows in (indices, more)
        )
    return {
        "gradients": to_tensors([x.values for x in slices], dtype, whose),
        "indices": indices,
        "accumulated_rows": more,
    }


def _to_indices(name: str, rows: TensorLike) -> tf.Tensor:
    rows = tf.convert_to_tensor(rows)
    if not rows.dtype.is_integer:
        raise ValueError(
            f"`{name}` must be integers. Received: {rows.dtype.name}"
        )
    return rows


def to_tensors(
    gradients: Sequence[TensorLike],
    dtype: tf.DType | None,
    whose: str = "variables",
) -> list[tf.Tensor]:
    """Converts gradients to tensors of one type, that of the argument `whose`.

    Numbers without a TensorFlow type, such as those in lists and NumPy arrays,
    get it. None stands for the first gradient's type. Raises a ValueError if a
    gradient isn't a tensor or has another type, or the type has no kernels.
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


def variable_group(
    variables: Sequence[tf.Variable | keras.Variable], device: str
) -> tf.Tensor:
    """Creates a handle that an op takes in place of a list of variables.

    Passing a handle costs TensorFlow microseconds. For a thousand small slots,
    that takes longer than updating them. A group is only for eager steps: in a
    graph TensorFlow must see every variable, to order its uses, to save it
    with a function, and to compile it.

    The group keeps the variables alive and refers to their current values.
    """
    ops = library.library().ops
    with tf.device(device):
        group = ops.tf_opt_variable_group()
        ops.tf_opt_variable_group_fill(
            group, [variable.handle for variable in variables]
        )
    return group
