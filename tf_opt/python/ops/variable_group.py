"""One handle for many variables: TfOpt>VariableGroup."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

from tf_opt.python.ops import library


def variable_group(
    variables: Sequence[tf.Variable | keras.Variable], device: str
) -> tf.Tensor:
    """A handle that an op takes in place of a list of variables.

    Passing handles costs TensorFlow microseconds each, which for a thousand
    small slots is more than updating them. Only for eager steps: in a graph
    TensorFlow must see every variable, to order its uses, to save it with a
    function, and to compile it.

    Args:
        variables: The variables, in order.
        device: The device that they are on.

    Returns:
        The group's handle. It keeps the variables alive and sees whatever is
        assigned to them.
    """
    ops = library.library().ops
    with tf.device(device):
        group = ops.tf_opt_variable_group()
        ops.tf_opt_variable_group_fill(
            group, [variable.handle for variable in variables]
        )
    return group
