"""Conversion of gradients to the form that a step takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.keras_internals import Variable, path_of, tf_variable
from tf_opt.python.tensorflow_internals import inside_xla

Gradient = tf.Tensor | tf.IndexedSlices
# Gradients that users may pass, because Keras converts them.
GradientLike = Gradient | np.ndarray | list[Any] | float | keras.Variable


def as_gradients(
    grads: Sequence[GradientLike | None], variables: Sequence[Variable]
) -> list[Gradient | None]:
    """Converts a user's gradients to tensors or `tf.IndexedSlices`.

    Raises:
        ValueError: If there are more gradients than variables, or fewer, or
            indices aren't integers.
        TypeError: If a value doesn't convert; the error names the variable.
    """
    if len(grads) != len(variables):
        raise ValueError(
            "`grads` must have one gradient for each of the "
            f"{len(variables)} variables. Received: {len(grads)}"
        )
    return [
        gradient
        if gradient is None or isinstance(gradient, tf.Tensor)
        else _as_gradient(gradient, variable)
        for gradient, variable in zip(grads, variables, strict=True)
    ]


def _as_gradient(gradient: GradientLike, variable: Variable) -> Gradient:
    try:
        if not isinstance(gradient, tf.IndexedSlices):
            return tf.convert_to_tensor(gradient)
        values = tf.convert_to_tensor(gradient.values)
        indices = tf.convert_to_tensor(gradient.indices)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"The gradient of `{path_of(variable)}` must be a tensor, or "
            f"convert to one. Received: {gradient!r} ({error})"
        ) from error
    if not indices.dtype.is_integer:
        raise ValueError(
            f"The `indices` of the gradient of `{path_of(variable)}` "
            f"must be integers. Received: {indices.dtype.name}"
        )
    return tf.IndexedSlices(
        values, as_indices(indices, variable), gradient.dense_shape
    )


def as_indices(integers: tf.Tensor, table: Variable) -> tf.Tensor:
    """Casts indices to int32 or int64, whichever has the table's last row."""
    rows = tf.TensorShape(table.shape)[:1].num_elements()
    if integers.dtype == tf.int32 and rows is not None and rows < 2**31:
        return integers
    return tf.cast(integers, tf.int64)


def are_rows(indices: tf.Tensor, table: Variable) -> tf.Tensor:
    """Returns whether all indices, from `as_indices`, are rows of a table."""
    rows = tf.cast(rows_of(table), indices.dtype)
    return tf.reduce_all((indices >= 0) & (indices < rows))


def to_dense(
    gradient: Gradient, variable: Variable, dtype: tf.DType | None = None
) -> tf.Tensor:
    """Converts a gradient to a dense tensor; sums repeated rows.

    The result has the type `dtype`; if that is None, the gradient's.
    """
    dtype = dtype or gradient.dtype
    if isinstance(gradient, tf.IndexedSlices):
        # The arithmetic type, because a 16-bit sum of many rows loses digits.
        values = tf.cast(
            _one_for_each_index(gradient.values, gradient.indices),
            arithmetic.slot_dtype(gradient.dtype),
        )
        gradient = tf.math.unsorted_segment_sum(
            values, gradient.indices, rows_of(variable)
        )
    return gradient if gradient.dtype == dtype else tf.cast(gradient, dtype)


def _one_for_each_index(values: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """Returns the rows of slices; for the reason, see `_with_shape`."""
    counts = values.shape[:1].concatenate(indices.shape)
    if counts.is_fully_defined() or inside_xla():
        return values
    size = tf.concat([[tf.size(indices)], tf.shape(values)[1:]], axis=0)
    return tf.slice(values, tf.zeros_like(size), size)


def rows_of(variable: Variable) -> int | tf.Tensor:
    """Returns how many rows a variable has; a tensor if that may change."""
    rows = tf.TensorShape(variable.shape)[0]
    if rows is None:
        rows = tf.shape(tf_variable(variable), tf.int64)[0]
    return rows


def cast(gradient: Gradient, dtype: tf.DType) -> Gradient:
    """Casts a gradient to another type."""
    if isinstance(gradient, tf.IndexedSlices):
        values = tf.cast(gradient.values, dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return tf.cast(gradient, dtype)


def identity(gradient: Gradient) -> Gradient:
    """Returns the gradient; in a graph, after its control dependencies."""
    if isinstance(gradient, tf.IndexedSlices):
        indices = tf.identity(gradient.indices)
        return tf.IndexedSlices(gradient.values, indices, gradient.dense_shape)
    return tf.identity(gradient)


def for_update(
    gradient: Gradient,
    variable: tf.Variable,
    user_variable: Variable,
    *,
    sparse: bool = False,
    for_op: bool = False,
) -> Gradient:
    """Converts a gradient to the variable's type and shape.

    It is broadcast, as in Keras. Errors name the `user_variable`; `variable` is
    what the step updates. Slices stay slices if `sparse` is true. The custom op
    checks the shape itself (`for_op`).
    """
    shape = variable.shape
    if isinstance(gradient, tf.IndexedSlices) and variable.dtype.is_complex:
        raise ValueError(
            f"The gradient of `{path_of(user_variable)}`, a complex variable, "
            f"must be dense. Received: {gradient!r}"
        )
    if sparse:
        return _slices_for_update(gradient, variable, user_variable)
    if (
        isinstance(gradient, tf.Tensor)
        and gradient.dtype == variable.dtype
        and gradient.shape == shape
    ):
        # The usual case, kept quick for eager steps.
        return gradient
    gradient = to_dense(gradient, variable, variable.dtype)
    if gradient.shape.is_compatible_with(shape):
        if for_op or gradient.shape.is_fully_defined():
            return gradient
        return _with_shape(gradient, shape, user_variable)
    try:
        fits = tf.broadcast_static_shape(gradient.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"The gradient of `{path_of(user_variable)}` must have its shape, "
            f"{shape}. Received: {gradient.shape}"
        )
    return tf.broadcast_to(gradient, shape)


def _with_shape(
    gradient: tf.Tensor, shape: tf.TensorShape, user_variable: Variable
) -> tf.Tensor:
    """Returns a gradient whose shape `check_when_run` checks.

    TensorFlow's graph optimizer concludes from later ops, such as assignments
    and sums of segments, that the shape is right, and then removes the check.
    It doesn't conclude anything from a slice.
    """
    _check_known_inside_xla(gradient.shape, shape, user_variable)
    if not shape.is_fully_defined():
        return gradient
    return tf.slice(gradient, [0] * shape.rank, shape)


def _check_known_inside_xla(
    received: tf.TensorShape, expected: tf.TensorShape, user_variable: Variable
) -> None:
    """Raises for a size that XLA would not compare with the variable's."""
    if inside_xla() and not received.is_fully_defined():
        raise ValueError(
            f"The gradient of `{path_of(user_variable)}` must have a known "
            "shape inside XLA, which can't check it when the step runs. Call "
            "`tf.ensure_shape`, or compile with `jit_compile=False`. Expected: "
            f"{expected}. Received: {received}"
        )


def _checked_slices(
    slices: tf.IndexedSlices, variable: tf.Variable, user_variable: Variable
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns values and indices, with shapes that fit the variable."""
    values, indices = slices.values, slices.indices
    if variable.shape.rank == 0:
        raise ValueError(
            f"`{path_of(user_variable)}` has no rows: its gradient can't be a "
            f"`tf.IndexedSlices`. Received: {slices!r}"
        )
    expected = indices.shape.concatenate(variable.shape[1:])
    if indices.shape.rank not in (1, None) or not (
        values.shape.is_compatible_with(expected)
    ):
        raise ValueError(
            f"The gradient of `{path_of(user_variable)}`, shape "
            f"{variable.shape}, must have one row of it for each of its "
            "`indices`. Received: "
            f"values of shape {values.shape}, indices of shape {indices.shape}"
        )
    return values, indices


def _slices_for_update(
    slices: tf.IndexedSlices, variable: tf.Variable, user_variable: Variable
) -> tf.IndexedSlices:
    values, indices = _checked_slices(slices, variable, user_variable)
    values = tf.cast(values, variable.dtype)
    row_shape = variable.shape[1:]
    _check_known_inside_xla(values.shape[1:], row_shape, user_variable)
    values = tf.ensure_shape(values, [None, *row_shape])
    return tf.IndexedSlices(values, tf.ensure_shape(indices, [None]))


def check_when_run(
    gradient: Gradient, variable: Variable, *, rows: bool
) -> list[tf.Operation]:
    """Checks what isn't known of a gradient before the step runs.

    The rows of slices are checked only if `rows` is true. XLA can't check.

    Returns:
        The ops that check, in a graph.

    Raises:
        ValueError: If slices can't be rows of the variable.
        tf.errors.InvalidArgumentError: Eagerly, if a size or a row is wrong. In
            a graph, the ops raise it.
    """
    checks: list[tuple[tf.Tensor, list[Any]]] = []
    if isinstance(gradient, tf.IndexedSlices):
        if rows:
            checks = _checks_of_slices(gradient, variable)
    else:
        shape = tf.TensorShape(variable.shape)
        if gradient.shape.is_compatible_with(shape) and not (
            gradient.shape.is_fully_defined() and shape.is_fully_defined()
        ):
            received = tf.shape(gradient)
            expected = tf.shape(tf_variable(variable))
            text = f"The gradient of `{path_of(variable)}` must have its shape,"
            message = [text, expected, "Received:", received]
            checks = [(_are_equal(received, expected), message)]
    asserts = (tf.debugging.Assert(*check) for check in checks)
    return [x for x in asserts if x is not None]


def _checks_of_slices(
    slices: tf.IndexedSlices, variable: Variable
) -> list[tuple[tf.Tensor, list[Any]]]:
    """Returns the conditions and the messages where they don't hold."""
    name = path_of(variable)
    values, indices = _checked_slices(slices, tf_variable(variable), variable)
    row_shape = tf.shape(tf_variable(variable), tf.int64)[1:]
    expected = tf.concat([tf.shape(indices, tf.int64), row_shape], axis=0)
    return [
        (
            are_rows(indices, variable),
            [
                f"The indices of the gradient of `{name}` must be in "
                f"[0, {variable.shape[0] or 'its rows'}). Received:",
                indices,
            ],
        ),
        (
            _are_equal(tf.shape(values, tf.int64), expected),
            [
                f"The gradient of `{name}` must have one row of it for each of "
                "its `indices`. Received: values of shape",
                tf.shape(values),
                "and so many indices:",
                tf.size(indices),
            ],
        ),
    ]


def _are_equal(shape: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """Returns whether two shapes are equal; they may differ in rank."""
    return tf.reduce_all(
        tf.raw_ops.Equal(x=shape, y=other, incompatible_shape_error=False)
    )
