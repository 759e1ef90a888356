"""What the wrappers of all resource-apply ops do."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import scalars as checked
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.tensors import TensorLike
from tf_opt.python.ops import library
from tf_opt.python.ops.gradients import to_tensors
from tf_opt.python.ops.handles import VariableLike
from tf_opt.python.ops.handles import common_dtype
from tf_opt.python.ops.handles import to_handles
from tf_opt.python.ops.lists import to_list


def resource_apply(
    wrapper: str,
    variables: Mapping[str, Sequence[VariableLike]],
    gradients: Sequence[TensorLike],
    *,
    scalars: Mapping[str, Scalar],
    integers: Mapping[str, Scalar],
    weight_decay: Scalar | Sequence[Scalar],
    optional: Collection[str] = (),
    **modes: bool,
) -> None:
    """Runs an op that updates variables in place.

    Args:
        wrapper: The name of the op's generated wrapper.
        variables: Its lists of variables and slots, by name.
        gradients: One for each variable.
        scalars: Its float64 inputs, by name.
        integers: Its int64 inputs, by name.
        weight_decay: One number for all variables, or one for each.
        optional: Which of the lists may be empty.
        **modes: The op's attributes, by name.

    Raises:
        RuntimeError: If the library of custom ops isn't loaded.
        TypeError: If a list holds something else than variables.
        ValueError: If a list is empty or of another length, or a gradient or
            number can't be used.
    """
    ops = library.library().ops
    if ops is None:
        raise RuntimeError(library.explain_problem())
    gradients = to_list(gradients, "gradients", "tensors")
    if not gradients:
        raise ValueError("`gradients` must not be empty")
    lists = {
        name: to_list(values, name, "variables")
        for name, values in variables.items()
    }
    handles = {name: to_handles(name, lists[name]) for name in lists}
    for name, values in lists.items():
        if values or name not in optional:
            _check_length(name, values, len(gradients))
    # Python's numbers go to the op as they are: there they become float64 with
    # all their digits, and that costs next to nothing.
    arguments = {
        **handles,
        "gradients": to_tensors(gradients, common_dtype(lists["variables"])),
        **{name: checked.real(name, x) for name, x in scalars.items()},
        **{name: checked.integer(name, x) for name, x in integers.items()},
        "weight_decay": _one_for_each(weight_decay, len(gradients)),
        **checked.booleans(**modes),
    }
    if tf.executing_eagerly():
        getattr(ops, wrapper)(**arguments)
        return
    # Auto-clustering would take it for an op that XLA compiles.
    with tf.xla.experimental.jit_scope(compile_ops=False):
        getattr(ops, wrapper)(**arguments)


def _check_length(
    name: str, variables: Sequence[VariableLike], count: int
) -> None:
    may_be_group = len(variables) == 1 and isinstance(variables[0], tf.Tensor)
    if len(variables) != count and not may_be_group:
        raise ValueError(
            f"`{name}` must have one variable for each of the {count} "
            f"`gradients`, got {len(variables)}"
        )


def _one_for_each(
    weight_decay: Scalar | Sequence[Scalar], count: int
) -> np.ndarray | tf.Tensor:
    """A weight decay for each of `count` variables: a vector in float64."""
    if isinstance(weight_decay, np.ndarray):
        weight_decay = weight_decay.tolist()
    if isinstance(weight_decay, (list, tuple)):
        if len(weight_decay) != count:
            raise ValueError(
                "`weight_decay` must be one number, or have one element for "
                f"each of the {count} `variables`, got {len(weight_decay)}"
            )
        if set(map(type, weight_decay)) == {float}:
            # A list would take the op's slow path.
            return np.array(weight_decay)
        return tf.stack(
            [
                arithmetic.float64(checked.real(f"weight_decay[{i}]", decay))
                for i, decay in enumerate(weight_decay)
            ]
        )
    decay = checked.real("weight_decay", weight_decay, may_be_vector=True)
    if isinstance(decay, float):
        return np.full(count, decay)
    if decay.shape.rank == 1:
        return decay
    # Of unknown rank it may still be a vector: that one keeps its length, which
    # the op checks.
    shape = tf.concat([tf.shape(decay), [count]], axis=0)[:1]
    return tf.broadcast_to(decay, shape)
