"""The op TfOpt>VariableGroup: one handle for many variables."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

from tf_opt.python.ops import library


def variable_group(
    variables: Sequence[tf.Variable | keras.Variable], device: str
) -> tf.Tensor:
    """Creates a handle that an op takes in place of a list of variables.

    Passing a handle costs TensorFlow microseconds. For a thousand small slots,
    that takes longer than updating them. A group is only for eager steps: in a
    graph TensorFlow must see every variable, to order its uses, to save it with
    a function, and to compile it.

    Args:
        variables: The variables, in order.
        device: The device that they are on.

    Returns:
        The group's handle. It keeps the variables alive and refers to their
        current values.
    """
    ops = library.library().ops
    with tf.device(device):
        group = ops.tf_opt_variable_group()
        ops.tf_opt_variable_group_fill(
            group, [variable.handle for variable in variables]
        )
    return group
