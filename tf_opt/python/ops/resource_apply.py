"""What the wrappers of all resource-apply ops do."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

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
from tf_opt.python.ops.lists import check_length
from tf_opt.python.ops.lists import to_list
from tf_opt.python.ops.outside_xla import run_op
from tf_opt.python.ops.step_frame import BARE
from tf_opt.python.ops.step_frame import StepFrame

# The attributes of every such op.
COMMON_MODES = ("decoupled_weight_decay", "maximize")


class ResourceApplyOp(NamedTuple):
    """An op that updates variables in place.

    Attributes:
        name: Its registered name.
        wrapper: The name of its generated wrapper.
        slots: The names of its lists of slots, in the rule's order.
        reals: Those of its float64 inputs that only it has.
        integers: Those of its int64 inputs.
        modes: Those of its attributes.
        optional_slots: Which of its lists may be empty.
    """

    name: str
    wrapper: str
    slots: tuple[str, ...]
    reals: tuple[str, ...]
    integers: tuple[str, ...]
    modes: tuple[str, ...] = COMMON_MODES
    optional_slots: tuple[str, ...] = ()


def resource_apply(
    op: ResourceApplyOp,
    variables: Mapping[str, Sequence[VariableLike]],
    gradients: Sequence[TensorLike],
    *,
    numbers: Mapping[str, Scalar],
    weight_decay: Scalar | Sequence[Scalar],
    frame: StepFrame = BARE,
    **modes: bool,
) -> None:
    """Runs an op that updates variables in place.

    Args:
        op: The op.
        variables: Its lists of variables and slots, by name.
        gradients: One for each variable.
        numbers: Its float64 and int64 inputs, by name.
        weight_decay: One number for all variables, or one for each.
        frame: What is done around the rule.
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
    around = {"accumulators": frame.accumulators, "averages": frame.averages}
    lists = {
        name: to_list(values, name, "variables")
        for name, values in {**variables, **around}.items()
    }
    handles = {name: to_handles(name, lists[name]) for name in lists}
    for name, values in lists.items():
        if values or not (name in op.optional_slots or name in around):
            check_length(name, values, len(gradients))
    # Python's numbers go to the op as they are: there they become float64 with
    # all their digits, and that costs next to nothing.
    arguments = {
        **handles,
        "gradients": to_tensors(gradients, common_dtype(lists["variables"])),
        **{name: checked.real(name, numbers[name]) for name in op.reals},
        **{name: checked.integer(name, numbers[name]) for name in op.integers},
        **{
            name: _one_for_each(name, x, len(gradients))
            for name, x in {
                "weight_decay": weight_decay,
                "learning_rate_factors": frame.learning_rate_factors,
                "gradient_factors": frame.gradient_factors,
            }.items()
        },
        **{
            name: checked.real(name, getattr(frame, name))
            for name in ("gradient_scale", "clip_value", "ema_momentum")
        },
        **{
            name: checked.boolean(name, getattr(frame, name))
            for name in ("overwrite_with_average", "enabled", "update")
        },
        **checked.booleans(**modes),
    }
    run_op(getattr(ops, op.wrapper), **arguments)


def _one_for_each(
    name: str, value: Scalar | Sequence[Scalar], count: int
) -> float | np.ndarray | tf.Tensor:
    """A float64 scalar, or a vector with an element for each of `count`."""
    if isinstance(value, np.ndarray) and value.ndim:
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        return checked.real(name, value, may_be_vector=True)
    if len(value) != count:
        raise ValueError(
            f"`{name}` must be one number, or have one element for each of "
            f"the {count} `variables`, got {len(value)}"
        )
    if set(map(type, value)) == {float}:
        # A list would take the op's slow path.
        return np.array(value)
    return tf.stack(
        [
            arithmetic.float64(checked.real(f"{name}[{i}]", x))
            for i, x in enumerate(value)
        ]
    )
