"""The composed implementation of a step's parts, a variable at a time."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_opt.python.functional import slices
from tf_opt.python.functional import step_frame
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.measure import GradientMeasures
from tf_opt.python.functional.measure import measure_gradients
from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.ops.step_frame import StepFrame
from tf_opt.python.optimizers import accumulated_rows
from tf_opt.python.optimizers import gradients
from tf_opt.python.optimizers import local_state
from tf_opt.python.optimizers import rule_function
from tf_opt.python.optimizers.flags import Flag
from tf_opt.python.optimizers.flags import both
from tf_opt.python.optimizers.flags import choose
from tf_opt.python.optimizers.gradients import Gradient
from tf_opt.python.optimizers.master_weights import Weight
from tf_opt.python.optimizers.rounding import Rounding
from tf_opt.python.optimizers.rounding import needs_bits
from tf_opt.python.optimizers.step_plan import Bucket

if TYPE_CHECKING:
    from tf_opt.python.optimizers.fused_optimizer import FusedOptimizer


# For each of a bucket's tables the rows of what was accumulated; None: of dense
# gradients, where nothing was accumulated, or inside XLA.
Rows = Sequence[tf.Tensor] | None


def accumulate(
    optimizer: FusedOptimizer,
    bucket: Bucket,
    grads: Sequence[Gradient],
    scale: Scalar,
    enabled: Flag,
) -> None:
    """Adds gradients to what was accumulated."""
    for gradient, index in zip(grads, bucket.indices, strict=True):
        accumulator = optimizer._accumulated_gradients[index]
        rows = None
        if bucket.sparse:
            merged = slices.merge(gradient.values, gradient.indices)
            rows, gradient = merged.rows, merged.once()
        scaled = step_frame.accumulate(None, gradient, scale)
        # A gradient that is skipped may be no number.
        scaled = choose(enabled, scaled, tf.zeros_like(scaled))
        if rows is None:
            local_state.assign_add(accumulator, scaled)
        else:
            local_state.add_to_rows(accumulator, rows, scaled)


def measure(
    optimizer: FusedOptimizer,
    bucket: Bucket,
    grads: Sequence[Gradient],
    *,
    accumulates: bool,
    rows: Rows,
    gradient_scale: Scalar,
    enabled: Flag,
) -> GradientMeasures:
    """Measures a bucket's gradients."""
    accumulators = []
    if accumulates and rows is not None:
        merged = list(map(_with_rows, grads, rows))
        grads = [each.once() for each in merged]
        accumulators = [
            each._replace(sums=_accumulated(optimizer, i, each)).once()
            for i, each in zip(bucket.indices, merged, strict=True)
        ]
    elif accumulates:
        grads = list(map(_dense, grads, bucket.variables))
        accumulators = [
            tf.convert_to_tensor(optimizer._accumulated_gradients[i])
            for i in bucket.indices
        ]
    elif bucket.sparse:
        grads = [slices.merge(x.values, x.indices).once() for x in grads]
    return measure_gradients(
        grads, accumulators, gradient_scale=gradient_scale, enabled=enabled
    )


def finished_gradients(
    optimizer: FusedOptimizer,
    bucket: Bucket,
    grads: Sequence[Gradient],
    frame: StepFrame,
    *,
    accumulates: bool,
    rows: Rows,
) -> list[Gradient]:
    """The gradients that a rule is given, in the arithmetic's type.

    What was accumulated goes into them, and is zero then. Slices stay slices,
    with each row once.
    """
    finished = []
    for i in range(len(grads)):
        part = _Part.of(optimizer, bucket, grads, frame, i, accumulates, rows)
        gradient = part.gradient
        if part.merged is not None:
            gradient = tf.IndexedSlices(
                part.merged._replace(sums=gradient).once(), part.merged.rows
            )
        elif part.occurs is not None:
            occurring = tf.where(part.occurs)[:, 0]
            gradient = tf.IndexedSlices(
                tf.gather(gradient, occurring), occurring
            )
        finished.append(gradient)
    return finished


class _Part(NamedTuple):
    """What of one variable a step updates.

    Attributes:
        gradient: The gradient that the rule is given.
        merged: Of which rows it is; None: it is of the whole variable.
        occurs: Of that, for each row whether it is updated; None: all are.
    """

    gradient: tf.Tensor
    merged: slices.MergedSlices | None = None
    occurs: tf.Tensor | None = None

    @classmethod
    def of(
        cls,
        optimizer: FusedOptimizer,
        bucket: Bucket,
        grads: Sequence[Gradient],
        frame: StepFrame,
        i: int,
        accumulates: bool,
        rows: Rows,
    ) -> _Part:
        """That of the bucket's i-th variable; takes what was accumulated."""
        gradient, variable = grads[i], bucket.variables[i]
        index = bucket.indices[i]
        accumulator = accumulated = merged = occurs = None
        if accumulates and rows is not None:
            accumulator = optimizer._accumulated_gradients[index]
            merged = _with_rows(gradient, rows[i])
            gradient = merged.sums
            accumulated = _accumulated(optimizer, index, merged)
        elif accumulates:
            accumulator = optimizer._accumulated_gradients[index]
            accumulated = tf.convert_to_tensor(accumulator)
            if bucket.sparse:
                # The rows' number isn't known while XLA compiles.
                occurs = accumulated_rows.are_accumulated(accumulator)
                occurs |= _occurring(gradient, variable)
                gradient = _dense(gradient, variable)
        elif bucket.sparse:
            merged = slices.merge(gradient.values, gradient.indices)
            gradient = merged.sums
        total = step_frame.accumulate(
            accumulated, gradient, frame.gradient_scale
        )
        if accumulator is not None:
            zeros = tf.zeros_like(accumulated)
            local_state.write_rows(
                accumulator,
                None if merged is None else merged.rows,
                choose(frame.enabled, zeros, accumulated),
            )
        finished = step_frame.finish_gradient(
            total, _element(frame.gradient_factors, i), frame.clip_value
        )
        return cls(finished, merged, occurs)

    def changes(self, variable: tf.Variable, enabled: Flag) -> Flag:
        """Where something changes, in a form that broadcasts to values."""
        if self.occurs is None:
            return enabled
        shape = [-1] + [1] * (variable.shape.rank - 1)
        return both(enabled, tf.reshape(self.occurs, shape))

    @property
    def rows(self) -> tf.Tensor | None:
        """The rows that it is of; None: it is of the whole variable."""
        return None if self.merged is None else self.merged.rows


def _with_rows(
    gradient: tf.IndexedSlices, rows: tf.Tensor
) -> slices.MergedSlices:
    """A sparse gradient that says zero of some more rows."""
    values, indices = gradient.values, tf.cast(gradient.indices, tf.int64)
    zeros = tf.zeros([tf.size(rows), *values.shape[1:]], values.dtype)
    return slices.merge(
        tf.concat([values, zeros], 0), tf.concat([indices, rows], 0)
    )


def _accumulated(
    optimizer: FusedOptimizer, index: int, merged: slices.MergedSlices
) -> tf.Tensor:
    """What was accumulated in the rows of a gradient."""
    return local_state.read_rows(
        optimizer._accumulated_gradients[index], merged.rows
    )


def _dense(gradient: Gradient, variable: tf.Variable) -> tf.Tensor:
    return gradients.to_dense(gradient, variable)


def _occurring(gradient: tf.IndexedSlices, variable: tf.Variable) -> tf.Tensor:
    """For each row of a table, whether a gradient says something of it."""
    ones = tf.ones_like(gradient.indices, tf.int32)
    return (
        tf.math.unsorted_segment_sum(ones, gradient.indices, variable.shape[0])
        > 0
    )


def update(
    optimizer: FusedOptimizer,
    bucket: Bucket,
    grads: Sequence[Gradient],
    frame: StepFrame,
    scalars: dict[str, Any],
    *,
    accumulates: bool,
    rows: Rows = None,
) -> None:
    """Updates a bucket's variables and slots, and of rows the averages."""
    rule = optimizer._rule
    apply = rule_function.bind(rule, optimizer._numbers(**scalars))
    in_place = _updates_in_place(optimizer, bucket, frame, apply)
    rounding = Rounding(optimizer)
    weight_decay = optimizer._weight_decay(bucket)
    for i, (variable, index) in enumerate(
        zip(bucket.variables, bucket.indices, strict=True)
    ):
        part = _Part.of(optimizer, bucket, grads, frame, i, accumulates, rows)
        factor = _element(frame.learning_rate_factors, i)
        if not step_frame.is_known(factor, 1):
            own = optimizer._with_learning_rate_factor(factor, scalars)
            apply = rule_function.bind(rule, optimizer._numbers(**own))
        slots = optimizer._slots(index)
        decay = _element(weight_decay, i)
        if in_place:
            apply.assign(
                tf_variable(variable),
                part.gradient,
                list(map(tf_variable, slots)),
                decay,
            )
            continue
        weight = Weight(optimizer, index, variable, part.rows)
        old_slots = optimizer._read_slots(slots, part.rows, **scalars)
        value, *slot_values = apply(
            weight.value, part.gradient, old_slots, decay
        )
        changes = part.changes(variable, frame.enabled)
        weight.write(value, changes, rounding)
        # A rule returns more than the slots: what the step shares, or None
        # for a slot that its mode doesn't have.
        slot_values = [
            choose(
                changes,
                rounding.slot(index, k, new, before.dtype, part.rows),
                before,
            )
            for k, (new, before) in enumerate(
                zip(slot_values, old_slots, strict=False)
            )
        ]
        optimizer._write_slots(slots, slot_values, part.rows, **scalars)
        if bucket.sparse and frame.averages:
            _average(optimizer, index, frame, part.rows, changes)


def _updates_in_place(
    optimizer: FusedOptimizer,
    bucket: Bucket,
    frame: StepFrame,
    apply: rule_function.Update,
) -> bool:
    """Whether a rule may read and write a bucket's variables itself.

    It may where all of each is updated, and computed on and stored by a cast.
    """
    return (
        isinstance(apply, rule_function.KeptRule)
        and optimizer._takes_whole_slots
        and not bucket.sparse
        and frame.enabled is True
        and not optimizer._masters
        and not needs_bits(optimizer)
        and all(map(local_state.is_one, bucket.variables))
    )


def _average(
    optimizer: FusedOptimizer,
    index: int,
    frame: StepFrame,
    rows: tf.Tensor | None,
    changes: Flag,
) -> None:
    """Lets a variable's average follow it, or that of some rows."""
    average_of = optimizer._model_variables_moving_average[index]
    if average_of is None:
        return
    weight = Weight(optimizer, index, rows=rows)
    rounding = Rounding(optimizer)
    old = local_state.read_rows(average_of, rows)
    # Which overwrites before it is rounded.
    new = step_frame.moving_average(old, weight.value, frame.ema_momentum)
    rounded = rounding.average(index, new, old.dtype, rows)
    local_state.write_rows(average_of, rows, choose(changes, rounded, old))
    overwrite = frame.overwrite_with_average
    if overwrite is False:
        weight.keep(changes)
    else:
        value = tf.cast(weight.value, new.dtype)
        weight.write(choose(overwrite, new, value), changes, rounding)


def average_rows(
    optimizer: FusedOptimizer,
    bucket: Bucket,
    grads: Sequence[tf.IndexedSlices],
    frame: StepFrame,
    rows: Rows,
) -> None:
    """Lets averages follow in the rows that were accumulated or occur."""
    for i, index in enumerate(bucket.indices):
        if rows is not None:
            merged = _with_rows(grads[i], rows[i])
            _average(optimizer, index, frame, merged.rows, frame.enabled)
            continue
        variable = bucket.variables[i]
        accumulator = optimizer._accumulated_gradients[index]
        occurs = accumulated_rows.are_accumulated(accumulator)
        part = _Part(grads[i], occurs=occurs | _occurring(grads[i], variable))
        changes = part.changes(variable, frame.enabled)
        _average(optimizer, index, frame, None, changes)


def average(
    optimizer: FusedOptimizer,
    indices: Iterable[int],
    frame: StepFrame,
    rows: tf.Tensor | None = None,
) -> None:
    """Lets the averages follow the variables that nothing else averaged.

    Args:
        optimizer: The optimizer.
        indices: Where the variables stand among its own.
        frame: Says how.
        rows: Of which rows; None: of all.
    """
    for index in indices:
        _average(optimizer, index, frame, rows, frame.enabled)


def _element(per_variable: Any, i: int) -> Scalar:
    """Of one number for all variables, or one for each, that of the i-th."""
    if isinstance(per_variable, (int, float)):
        return per_variable
    if isinstance(per_variable, (list, np.ndarray)):
        return per_variable[i] if np.ndim(per_variable) else per_variable
    if tf.is_tensor(per_variable) and per_variable.shape.rank == 1:
        return per_variable[i]
    return per_variable
