"""The custom ops as functions."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python.functional.arithmetic import Scalar, is_known
from tf_opt.python.functional.measure import GradientMeasures
from tf_opt.python.functional.rule_spec import RuleSpec
from tf_opt.python.ops import library
from tf_opt.python.tensorflow_internals import (
    constant,
    has_op_callbacks,
    is_registered,
    signature_of,
)

# A variable, or a handle (of a VariableGroup, for example).
VariableLike = tf.Variable | keras.Variable | tf.Tensor

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
    "counter": (),
    "rate": (),
    "stochastic_rounding": False,
    "seed": 0,
}
# What only the ops for slices take.
_OF_SLICES: Mapping[str, Any] = {"since": (), "coasting": (), "lazy": False}
# Inputs and attributes of all ops.
_COMMON = {"variables", "weight_decay", *BARE, *_OF_SLICES}


# ---- Calls. ----


@functools.cache
def _wrapper_of(op_name: str) -> Callable[..., Any]:
    """Returns an op's generated wrapper; raises RuntimeError without it."""
    ops = library.library().ops
    if ops is None:
        raise RuntimeError(library.explain_problem())
    # TensorFlow has a rule for the wrapper's name. It also exports a function
    # of the op's own name, which calls the wrapper.
    name = getattr(ops, op_name.replace(">", "_")).__name__
    return getattr(ops, name)


@functools.lru_cache(maxsize=256)
def _eager_scalar(value: float, dtype: str) -> tf.Tensor:
    """Returns a number as a tensor, which is kept for some time."""
    with tf.device("CPU"):
        return constant(value, tf.as_dtype(dtype))


def eager_call(
    op_name: str, arguments: Mapping[str, Any]
) -> Callable[..., Any]:
    """Returns an eager call of an op, which takes the other arguments."""
    converted = dict(arguments)
    for dtype, names in signature_of(op_name).scalars.items():
        key = dtype.name  # Hashing the type itself takes longer.
        for name in names:
            if isinstance(converted[name], (int, float)):
                converted[name] = _eager_scalar(converted[name], key)
    return functools.partial(_wrapper_of(op_name), **converted)


def run_op(op_name: str, **arguments: Any) -> Any:
    """Runs an op by name, outside of XLA's auto-clustering."""
    if tf.executing_eagerly():
        return eager_call(op_name, arguments)()
    op = _wrapper_of(op_name)
    # Kernels for GPUs take these from the host's memory. As a GPU's constants
    # each step would copy them back, and wait for the steps before.
    for name in {"seed", "table_rows"} & arguments.keys():
        with tf.device("CPU"):
            arguments[name] = tf.convert_to_tensor(arguments[name], tf.int64)
    # XLA can't compile it, so it must not be part of a cluster.
    with tf.xla.experimental.jit_scope(compile_ops=False):
        return op(**arguments)


# ---- Inputs. ----


def _to_handles(variables: Sequence[VariableLike]) -> list[tf.Tensor]:
    """Returns the handles of variables."""
    return [getattr(variable, "handle", variable) for variable in variables]


def _as_input(value: Any, dtype: tf.DType) -> Any:
    """Converts a number, or a vector of them, to an input of this type.

    `run_op` converts Python's numbers, exactly and at almost no cost.
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (int, float, np.ndarray)):
        return value
    return tf.cast(value, dtype)


def _slices_as_inputs(
    slices: Sequence[tf.IndexedSlices],
    accumulated_rows: Sequence[tf.Tensor],
    tables: Sequence[str],
) -> dict[str, Any]:
    """Returns inputs of a sparse op by name; see `merge_slices`."""
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
        "tables": list(tables),
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
        ops.tf_opt_variable_group_fill(group, _to_handles(variables))
    return group


# ---- Ops that take gradients. ----


def merge_slices(
    slices: Sequence[tf.IndexedSlices],
    table_rows: Sequence[int | tf.Tensor],
    accumulated_rows: Sequence[tf.Tensor] = (),
    *,
    tables: Sequence[str] = (),
) -> list[tf.IndexedSlices]:
    """Sums the repeated rows of gradients of one type, in one launch.

    Args:
        slices: The gradients.
        table_rows: The number of rows of each variable.
        accumulated_rows: For each variable, indices of more rows that occur,
            with a gradient of zero. Or empty.
        tables: The variables' names in errors. Empty: their positions.

    Returns:
        For each gradient its rows, sorted, each once. On a GPU, rows that the
        table doesn't have follow, which ops there leave out.
    """
    if any(isinstance(rows, tf.Tensor) for rows in table_rows):
        table_rows = tf.stack([tf.cast(x, tf.int64) for x in table_rows])
    else:
        # TensorFlow converts a list more slowly.
        table_rows = np.array(table_rows, np.int64)
    merged = run_op(
        "TfOpt>MergeSlices",
        **_slices_as_inputs(slices, accumulated_rows, tables),
        table_rows=table_rows,
    )
    return [
        tf.IndexedSlices(values, indices)
        for indices, values in zip(merged.rows, merged.sums, strict=True)
    ]


def measure_gradients(
    gradients: Sequence[tf.Tensor],
    accumulators: Sequence[VariableLike] = (),
    *,
    rows: Sequence[tf.Tensor] = (),
    gradient_scale: Scalar = 1.0,
    enabled: bool | tf.Tensor = True,
) -> GradientMeasures:
    """Does what `tf_opt.functional.measure_gradients` does, in one launch.

    The gradients have one type, and the accumulators are variables. A sum's
    order depends only on the number of elements, so its bits are the same on
    any number of threads. A sum may be infinite even if all elements are
    finite. Unless `enabled`, nothing is read.

    `rows` has for each gradient the rows that it has of its accumulator,
    sorted, each once; in the other rows it is zero. Or it is empty: all rows.
    """
    return GradientMeasures(
        *run_op(
            "TfOpt>MeasureGradients",
            gradients=list(gradients),
            rows=[tf.cast(x, tf.int64) for x in rows],
            accumulators=_to_handles(accumulators),
            gradient_scale=_as_input(gradient_scale, tf.float64),
            enabled=_as_input(enabled, tf.bool),
        )
    )


# ---- Ops that update variables, one for each rule. ----


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
    def numbers(self) -> tuple[str, ...]:
        """Names of the scalars that aren't part of the frame."""
        scalars = signature_of(self.name).scalars
        return _without_common((*scalars[tf.float64], *scalars[tf.int64]))

    @property
    def modes(self) -> tuple[str, ...]:
        """Names of the rule's attributes."""
        return _without_common(signature_of(self.name).modes)

    def inputs(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns inputs and attributes by name, except lists of tensors.

        They are what is given, and otherwise those of a `BARE` frame. There are
        no slots but those that are given. What the op doesn't have is ignored.
        """
        signature = signature_of(self.name)
        given = {**BARE, **_OF_SLICES, **given}
        inputs: dict[str, Any] = {
            name: _to_handles(given.get(name, ())) for name in signature.handles
        }
        for dtype, names in signature.scalars.items():
            for name in names:
                inputs[name] = _as_input(given[name], dtype)
        if has_op_callbacks() and is_known(inputs["clip_value"], math.inf):
            # `enable_check_numerics` must not report this infinity.
            inputs["clip_value"] = sys.float_info.max
        return inputs | {name: bool(given[name]) for name in signature.modes}


def _without_common(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in _COMMON)


def check_fits(spec: RuleSpec) -> None:
    """Raises an ImportError unless a rule's registered ops fit it."""
    for form in spec.forms.values():
        # An op of another optimizer fits that one.
        if form.op_name is None or form.op_arguments:
            continue
        numbers = [x.name for x in form.numbers if x.in_op]
        expected = {
            "slots": [slot.name for slot in form.slots],
            "numbers": sorted([*numbers, *(x.name for x in form.shared)]),
            "modes": sorted(form.all_modes),
            "coasts": form.coasts,
        }
        op = ResourceApplyOp(form.op_name)
        slices = op.for_slices.name
        for each in (op, op.for_slices):
            found = is_registered(each.name) and {
                "slots": list(each.slots),
                "numbers": sorted(each.numbers),
                "modes": sorted(each.modes),
                "coasts": "coasting" in signature_of(slices).handles,
            }
            if found != expected:
                raise ImportError(
                    "tf_opt's library of custom ops doesn't fit its Python "
                    f"files. Install tf_opt again. {each.name} must have "
                    f"{expected}. Received: {found or 'no such op'}"
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
        accumulated_rows: As in `merge_slices`, for rows to update with their
            accumulated gradients.
        tables: As in `merge_slices`.
        **arguments: The op's other inputs and attributes, by name; see
            `ResourceApplyOp.inputs`.

    Returns:
        The operation, in a graph.
    """
    own: dict[str, Any] = {"gradients": list(gradients)}
    if isinstance(gradients[0], tf.IndexedSlices):
        op = op.for_slices
        own = _slices_as_inputs(gradients, accumulated_rows, tables)
    return run_op(op.name, **own, **op.inputs(arguments))
