"""The ops that update variables, one for each rule."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_opt.python.functional import scalars as checked
from tf_opt.python.functional.rule_spec import RuleSpec
from tf_opt.python.functional.step_frame import is_known
from tf_opt.python.ops import library
from tf_opt.python.ops.inputs import slices_as_inputs
from tf_opt.python.ops.inputs import to_handles
from tf_opt.python.tensorflow_internals import has_op_callbacks
from tf_opt.python.tensorflow_internals import is_registered
from tf_opt.python.tensorflow_internals import signature_of

# Frame of a step that only applies its rule. docs/api/ops.md describes it.
BARE: Mapping[str, Any] = {
    "accumulators": (),
    "averages": (),
    "master_weights": (),
    "learning_rate_factors": 1.0,
    "gradient_factors": 1.0,
    "gradient_scale": 1.0,
    "clip_value": math.inf,
    "ema_momentum": 0.0,
    "overwrite_with_average": False,
    "enabled": True,
    "update": True,
    "variable_numbers": 0.0,
    "iteration": 0,
    "stochastic_rounding": False,
    "seed": 0,
}
# What only the ops for slices take.
_OF_SLICES: Mapping[str, Any] = {"since": (), "coasting": (), "lazy": False}
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
    tf.bool: checked.flag,
}
# Inputs and attributes of all ops.
_COMMON = {"variables", *BARE, *_OF_SLICES, *_PER_VARIABLE}


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


def check_fits(spec: RuleSpec) -> None:
    """Raises an ImportError unless a rule's registered ops fit it."""
    if spec.row_wise and not any(slot.by_row for slot in spec.slots):
        check_fits(spec.row_wise)
    op = ResourceApplyOp(spec.op_name)
    expected = {
        "slots": [slot.name for slot in spec.slots],
        "numbers": sorted(
            [
                *(number.name for number in spec.numbers if number.in_op),
                *(shared.name for shared in spec.shared),
            ]
        ),
        "modes": sorted(spec.all_modes),
        "coasts": spec.coasts,
    }
    for each in (op, op.for_slices):
        found = is_registered(each.name) and {
            "slots": list(each.slots),
            "numbers": sorted(each.numbers),
            "modes": sorted(each.modes),
            "coasts": op.for_slices.coasts,
        }
        if found != expected:
            raise ImportError(
                "tf_opt's library of custom ops doesn't fit its Python files. "
                f"Install tf_opt again. {each.name} must have {expected}, got "
                f"{found or 'no such op'}"
            )


def resource_apply(
    op: ResourceApplyOp,
    gradients: Sequence[tf.Tensor] | Sequence[tf.IndexedSlices],
    *,
    accumulated_rows: Sequence[tf.Tensor] = (),
    tables: Sequence[str] = (),
    **arguments: Any,
) -> tf.Operation | None:
    """Runs an op that updates variables in place.

    Args:
        op: The op for dense gradients.
        gradients: One for each variable: all `tf.IndexedSlices`, or all dense.
        accumulated_rows: For each variable, indices of more rows to update,
            with their accumulated gradients. Or empty.
        tables: For slices, the variables' names in errors. Empty: their
            positions.
        **arguments: The op's other inputs and attributes, by name: lists of
            variables and slots, numbers and modes, and what differs from a
            `BARE` frame. What the op doesn't have is ignored.

    Returns:
        The operation, in a graph.
    """
    inputs: dict[str, Any] = {"gradients": list(gradients)}
    if isinstance(gradients[0], tf.IndexedSlices):
        op = op.for_slices
        inputs = slices_as_inputs(gradients, accumulated_rows)
        inputs["tables"] = list(tables)
    given = {**BARE, **_OF_SLICES, **arguments}
    signature = signature_of(op.name)
    for name in signature.handles:
        inputs[name] = to_handles(given[name])
    # The op converts Python numbers to float64 exactly and at almost no cost.
    for dtype, names in signature.scalars.items():
        for name in names:
            if name in _PER_VARIABLE:
                inputs[name] = _one_for_each(name, given[name])
            else:
                inputs[name] = _CHECKS[dtype](name, given[name])
    if has_op_callbacks() and is_known(inputs["clip_value"], math.inf):
        # `enable_check_numerics` must not report this infinity.
        inputs["clip_value"] = sys.float_info.max
    for name in signature.modes:
        inputs[name] = bool(given[name])
    return library.run_op(op.name, **inputs)


def _one_for_each(name: str, value: Any) -> float | np.ndarray | tf.Tensor:
    """Converts to a float64 scalar or vector."""
    if isinstance(value, np.ndarray):
        return np.asarray(value, np.float64)
    return checked.real(name, value, may_be_vector=True)
