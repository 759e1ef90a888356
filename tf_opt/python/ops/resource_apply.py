"""Common part of the wrappers of all resource-apply ops."""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
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
from tf_opt.python.ops.inputs import are_slices
from tf_opt.python.ops.inputs import common_dtype
from tf_opt.python.ops.inputs import slices_as_inputs
from tf_opt.python.ops.inputs import to_handles
from tf_opt.python.ops.inputs import to_list
from tf_opt.python.ops.inputs import to_tensors
from tf_opt.python.ops.step_frame import BARE
from tf_opt.python.ops.step_frame import StepFrame
from tf_opt.python.tensorflow_internals import has_op_callbacks
from tf_opt.python.tensorflow_internals import is_registered
from tf_opt.python.tensorflow_internals import signature_of

# Inputs that are one number for all variables, or a vector with one number for
# each.
_PER_VARIABLE = (
    "weight_decay",
    "learning_rate_factors",
    "gradient_factors",
    "variable_numbers",
)
# Lists of variables for rows that catch up.
_WAITING = {"since": (), "coasting": ()}
_CHECKS = {
    tf.float64: checked.real,
    tf.int64: checked.integer,
    tf.bool: checked.flag,
}
_FRAME = frozenset(field.name for field in dataclasses.fields(StepFrame))
# Inputs and attributes of all ops.
_COMMON = _FRAME | {"variables", "lazy", *_WAITING, *_PER_VARIABLE}


class ResourceApplyOp(NamedTuple):
    """Op that updates variables in place.

    The properties look up the registered op, so the library must be loaded.

    Attributes:
        name: The registered name.
    """

    name: str

    @property
    def for_slices(self) -> ResourceApplyOp:
        """The op for gradients that are `tf.IndexedSlices`."""
        return ResourceApplyOp(self.name.replace("Apply", "SparseApply"))

    @property
    def is_registered(self) -> bool:
        """Whether there is such an op."""
        return is_registered(self.name)

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the lists of slots, in the rule's order."""
        return _without_common(signature_of(self.name).handles)

    @property
    def coasts(self) -> bool:
        """Whether rows of tables can catch up."""
        return "coasting" in signature_of(self.name).handles

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the scalars that aren't part of the frame."""
        scalars = signature_of(self.name).scalars
        return _without_common((*scalars[tf.float64], *scalars[tf.int64]))

    @property
    def modes(self) -> tuple[str, ...]:
        """Names of the rule's attributes."""
        return _without_common(signature_of(self.name).modes)


@functools.cache
def _without_common(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in _COMMON)


def resource_apply(
    op: ResourceApplyOp,
    gradients: Sequence[TensorLike] | Sequence[tf.IndexedSlices],
    *,
    frame: StepFrame = BARE,
    lazy_mode: bool = False,
    accumulated_rows: Sequence[tf.Tensor] = (),
    tables: Sequence[str] = (),
    **arguments: Any,
) -> tf.Operation | None:
    """Runs an op that updates variables in place.

    Args:
        op: The op.
        gradients: One for each variable: all `tf.IndexedSlices`, or all dense.
        frame: The frame of the step.
        lazy_mode: Whether to update only the rows that occur in slices.
        accumulated_rows: For each variable, indices of more rows to update,
            with their accumulated gradients. Or empty.
        tables: For slices, the variables' names in errors. Empty: their
            positions.
        **arguments: The op's other inputs and attributes, by name: lists of
            variables and slots, numbers and modes. `weight_decay` may be one
            number for all variables, or one number for each. What the op
            doesn't have is ignored.

    Returns:
        The operation, in a graph.

    Raises:
        RuntimeError: If the library of custom ops isn't loaded.
        TypeError: If a list of variables contains anything else.
        ValueError: If a list is empty or has the wrong length, or a gradient
            or number can't be used.
    """
    library.loaded_ops()  # Or the error that says why not.
    gradients = to_list(gradients, "gradients", "tensors")
    count = len(gradients)
    sparse = are_slices(gradients)
    if sparse:
        op = op.for_slices
    given = {
        **_WAITING,
        **arguments,
        **{name: getattr(frame, name) for name in _FRAME},
    }
    signature = signature_of(op.name)
    lists = {
        name: to_list(given[name], name, "variables")
        for name in signature.handles
    }
    # The op converts Python numbers to float64 exactly and at almost no cost.
    inputs: dict[str, Any] = {
        "seed": checked.fixed_integer("seed", frame.seed),
        **{
            name: to_handles(
                name,
                variables,
                count,
                may_be_empty=name in signature.optional_handles,
            )
            for name, variables in lists.items()
        },
    }
    dtype = common_dtype(lists["variables"])
    if sparse:
        inputs.update(slices_as_inputs(gradients, accumulated_rows, dtype))
        inputs["tables"] = list(tables)
        given["lazy"] = checked.mode("lazy_mode", lazy_mode)
    else:
        inputs["gradients"] = to_tensors(gradients, dtype)
    for dtype, names in signature.scalars.items():
        for name in names:
            if name in _PER_VARIABLE:
                inputs[name] = _one_for_each(name, given[name], count)
            elif name not in inputs:
                inputs[name] = _CHECKS[dtype](name, given[name])
    if has_op_callbacks() and is_known(inputs["clip_value"], math.inf):
        # `enable_check_numerics` must not report this infinity.
        inputs["clip_value"] = sys.float_info.max
    modes = {name: checked.mode(name, given[name]) for name in signature.modes}
    return library.run_op(library.wrapper_of(op.name), **inputs, **modes)


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
