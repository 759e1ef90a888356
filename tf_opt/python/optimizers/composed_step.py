"""The composed implementation of a step's parts, a variable at a time."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import tensorflow as tf

from tf_opt.python.functional import step_frame
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.ops.step_frame import StepFrame
from tf_opt.python.optimizers import local_state
from tf_opt.python.optimizers.flags import Flag
from tf_opt.python.optimizers.flags import choose
from tf_opt.python.optimizers.step_plan import Bucket

if TYPE_CHECKING:
    from tf_opt.python.optimizers.fused_optimizer import FusedOptimizer


def accumulate(
    optimizer: FusedOptimizer,
    bucket: Bucket,
    grads: Sequence[tf.Tensor],
    scale: Scalar,
    enabled: Flag,
) -> None:
    """Adds gradients to what was accumulated."""
    for gradient, index in zip(grads, bucket.indices, strict=True):
        accumulator = optimizer._accumulated_gradients[index]
        scaled = step_frame.accumulate(None, gradient, scale)
        # A gradient that is skipped may be no number.
        scaled = choose(enabled, scaled, tf.zeros_like(scaled))
        local_state.assign_add(accumulator, scaled)


def finished_gradients(
    optimizer: FusedOptimizer,
    bucket: Bucket,
    grads: Sequence[tf.Tensor],
    frame: StepFrame,
    *,
    accumulates: bool,
) -> list[tf.Tensor]:
    """The gradients that the rule is given, in the arithmetic's type.

    What was accumulated goes into them, and is zero then.
    """
    finished = []
    for i, (gradient, index) in enumerate(
        zip(grads, bucket.indices, strict=True)
    ):
        accumulator = accumulated = None
        if accumulates:
            accumulator = optimizer._accumulated_gradients[index]
            accumulated = tf.convert_to_tensor(accumulator)
        total = step_frame.accumulate(
            accumulated, gradient, frame.gradient_scale
        )
        if accumulator is not None:
            zeros = tf.zeros_like(accumulated)
            local_state.assign(
                accumulator, choose(frame.enabled, zeros, accumulated)
            )
        finished.append(
            step_frame.finish_gradient(
                total, _element(frame.gradient_factors, i), frame.clip_value
            )
        )
    return finished


def update(
    optimizer: FusedOptimizer,
    bucket: Bucket,
    grads: Sequence[tf.Tensor],
    frame: StepFrame,
    scalars: dict[str, Any],
    *,
    accumulates: bool,
) -> None:
    """Updates a bucket's variables and slots."""
    grads = finished_gradients(
        optimizer, bucket, grads, frame, accumulates=accumulates
    )
    apply = optimizer._composed_step(**scalars)
    weight_decay = optimizer._weight_decay(bucket)
    for i, (gradient, variable, index) in enumerate(
        zip(grads, bucket.variables, bucket.indices, strict=True)
    ):
        factor = _element(frame.learning_rate_factors, i)
        if tf.is_tensor(factor) or factor != 1:
            apply = optimizer._composed_step(
                **optimizer._with_learning_rate_factor(factor, scalars)
            )
        slots = optimizer._slots(index)
        old = tf.convert_to_tensor(variable)
        old_slots = optimizer._read_slots(slots, **scalars)
        value, *slot_values = apply(
            old, gradient, old_slots, _element(weight_decay, i)
        )
        local_state.assign(variable, choose(frame.enabled, value, old))
        # A rule returns more than the slots: what the step shares, or None
        # for a slot that its mode doesn't have.
        slot_values = [
            choose(frame.enabled, new, before)
            for new, before in zip(slot_values, old_slots, strict=False)
        ]
        optimizer._write_slots(slots, slot_values, **scalars)


def average(
    optimizer: FusedOptimizer, indices: Iterable[int], frame: StepFrame
) -> None:
    """Lets the averages follow the variables that no launch updated."""
    for index in indices:
        average_of = optimizer._model_variables_moving_average[index]
        if average_of is None:
            continue
        variable = tf_variable(optimizer._trainable_variables[index])
        value = tf.convert_to_tensor(variable)
        old = tf.convert_to_tensor(average_of)
        new = step_frame.moving_average(old, value, frame.ema_momentum)
        local_state.assign(average_of, choose(frame.enabled, new, old))
        overwrite = frame.overwrite_with_average
        if overwrite is not False:
            new = choose(overwrite, tf.cast(new, value.dtype), value)
            local_state.assign(variable, choose(frame.enabled, new, value))


def _element(per_variable: Any, i: int) -> Scalar:
    """Of one number for all variables, or one for each, that of the i-th."""
    if isinstance(per_variable, (list, np.ndarray)):
        return per_variable[i] if np.ndim(per_variable) else per_variable
    if tf.is_tensor(per_variable) and per_variable.shape.rank == 1:
        return per_variable[i]
    return per_variable
