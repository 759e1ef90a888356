"""Common part of the wrappers of all resource-apply ops."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import scalars as checked
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.step_frame import is_known
from tf_opt.python.functional.tensors import TensorLike
from tf_opt.python.ops import library
from tf_opt.python.ops.gradients import are_slices
from tf_opt.python.ops.gradients import slices_as_inputs
from tf_opt.python.ops.gradients import to_tensors
from tf_opt.python.ops.handles import VariableLike
from tf_opt.python.ops.handles import common_dtype
from tf_opt.python.ops.handles import to_handles
from tf_opt.python.ops.lists import check_length
from tf_opt.python.ops.lists import to_list
from tf_opt.python.ops.outside_xla import run_op
from tf_opt.python.ops.step_frame import BARE
from tf_opt.python.ops.step_frame import StepFrame
from tf_opt.python.tensorflow_internals import signature_of
from tf_opt.python.tensorflow_internals import unwatched_constant

# Inputs that are one number for all variables, or a vector with one number for
# each.
_PER_VARIABLE = (
    "weight_decay",
    "learning_rate_factors",
    "gradient_factors",
    "variable_numbers",
)
_CHECKS = {
    tf.float64: checked.real,
    tf.int64: checked.integer,
    tf.bool: checked.boolean,
}
_FRAME = frozenset(field.name for field in dataclasses.fields(StepFrame))


class ResourceApplyOp(NamedTuple):
    """Op that updates variables in place.

    The properties look up the registered op, so the library must be loaded.

    Attributes:
        name: The registered name.
        wrapper: The name of its generated wrapper.
    """

    name: str
    wrapper: str

    @property
    def for_slices(self) -> ResourceApplyOp:
        """The op for gradients that are `tf.IndexedSlices`."""
        return ResourceApplyOp(
            self.name.replace("Apply", "SparseApply"),
            self.wrapper.replace("apply", "sparse_apply"),
        )

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the lists of slots, in the rule's order."""
        return tuple(
            name
            for name in signature_of(self.name).handles
            if name != "variables" and name not in _FRAME
        )

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the scalars that aren't part of the frame."""
        scalars = signature_of(self.name).scalars
        return tuple(
            name
            for name in (*scalars[tf.float64], *scalars[tf.int64])
            if name not in _PER_VARIABLE and name not in _FRAME
        )

    @property
    def modes(self) -> tuple[str, ...]:
        """Names of the rule's attributes."""
        return tuple(
            name
            for name in signature_of(self.name).modes
            if name != "lazy" and name not in _FRAME
        )


def resource_apply(
    op: ResourceApplyOp,
    variables: Mapping[str, Sequence[VariableLike]],
    gradients: Sequence[TensorLike] | Sequence[tf.IndexedSlices],
    *,
    numbers: Mapping[str, Scalar],
    weight_decay: Scalar | Sequence[Scalar],
    frame: StepFrame = BARE,
    lazy_mode: bool = False,
    accumulated_rows: Sequence[tf.Tensor] = (),
    tables: Sequence[str] = (),
    **modes: bool,
) -> tf.Operation | None:
    """Runs an op that updates variables in place.

    Args:
        op: The op.
        variables: Lists of variables and slots, by name.
        gradients: One for each variable: all `tf.IndexedSlices`, or all dense.
        numbers: The float64 and int64 inputs, by name.
        weight_decay: One number for all variables, or one number for each.
        frame: The frame of the step.
        lazy_mode: Whether to update only the rows that occur in slices.
        accumulated_rows: For each variable, indices of more rows to update,
            with their accumulated gradients. Or empty.
        tables: For slices, the variables' names in errors. Empty: their
            positions.
        **modes: The op's attributes, by name.

    Returns:
        The operation, in a graph.

    Raises:
        RuntimeError: If the library of custom ops isn't loaded.
        TypeError: If a list of variables contains anything else.
        ValueError: If a list is empty or has the wrong length, or a gradient
            or number can't be used.
    """
    ops = library.library().ops
    if ops is None:
        raise RuntimeError(library.explain_problem())
    gradients = to_list(gradients, "gradients", "tensors")
    if not gradients:
        raise ValueError("`gradients` must not be empty")
    sparse = are_slices(gradients)
    if sparse:
        op = op.for_slices
    given = {
        **{name: getattr(frame, name) for name in _FRAME},
        **variables,
        **numbers,
        "weight_decay": weight_decay,
    }
    signature = signature_of(op.name)
    lists = {
        name: to_list(given[name], name, "variables")
        for name in signature.handles
    }
    handles = {name: to_handles(name, lists[name]) for name in lists}
    for name, values in lists.items():
        if values or name not in signature.optional_handles:
            check_length(name, values, len(gradients))
    dtype = common_dtype(lists["variables"])
    if sparse:
        inputs = {
            **slices_as_inputs(gradients, accumulated_rows, dtype),
            "lazy": checked.booleans(lazy_mode=lazy_mode)["lazy_mode"],
            "tables": list(tables),
        }
    else:
        inputs = {"gradients": to_tensors(gradients, dtype)}
    # The op converts Python numbers to float64 exactly and at almost no cost.
    arguments: dict[str, Any] = {
        **handles,
        **inputs,
        "seed": checked.fixed_integer("seed", frame.seed),
    }
    for dtype, names in signature.scalars.items():
        for name in names:
            if name in arguments:
                continue
            if name in _PER_VARIABLE:
                arguments[name] = _one_for_each(
                    name, given[name], len(gradients)
                )
            else:
                arguments[name] = _CHECKS[dtype](name, given[name])
    if is_known(arguments["clip_value"], BARE.clip_value):
        # `enable_check_numerics` must not report this infinity.
        arguments["clip_value"] = unwatched_constant(BARE.clip_value)
    return run_op(
        getattr(ops, op.wrapper),
        **arguments,
        **checked.booleans(
            **modes, stochastic_rounding=frame.stochastic_rounding
        ),
    )


def _one_for_each(
    name: str, value: Scalar | Sequence[Scalar], count: int
) -> float | np.ndarray | tf.Tensor:
    """Converts to a float64 scalar, or a vector of `count` elements."""
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
