"""Inputs of the ops: variables' handles and slices."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

from tf_opt.python.ops import library

# A variable, or a handle (of a VariableGroup, for example).
VariableLike = tf.Variable | keras.Variable | tf.Tensor


def to_handles(variables: Sequence[VariableLike]) -> list[tf.Tensor]:
    """Returns the handles of variables."""
    return [getattr(variable, "handle", variable) for variable in variables]


def slices_as_inputs(
    slices: Sequence[tf.IndexedSlices], accumulated_rows: Sequence[tf.Tensor]
) -> dict[str, list[tf.Tensor]]:
    """Returns the inputs of a sparse op that slices are, by name.

    `accumulated_rows` has for each gradient the indices of more rows that
    count as occurring, with a gradient of zero; or it is empty.
    """
    indices = [tf.convert_to_tensor(x.indices) for x in slices]
    more = list(accumulated_rows)
    # The types of indices that have kernels.
    if {x.dtype for x in (*indices, *more)} not in ({tf.int32}, {tf.int64}):
        indices, more = (
            [tf.cast(x, tf.int64) for x in rows] for rows in (indices, more)
        )
    return {
        "gradients": [x.values for x in slices],
        "indices": indices,
        "accumulated_rows": more,
    }


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
        ops.tf_opt_variable_group_fill(group, to_handles(variables))
    return group
