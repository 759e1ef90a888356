"""Launches the custom op for a bucket of variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_opt.python.ops.resource_apply import resource_apply
from tf_opt.python.ops.step_frame import StepFrame
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.state.rounding import RoundingSettings
from tf_opt.python.optimizers.step.frame import Factors
from tf_opt.python.optimizers.step.frame import Frame
from tf_opt.python.optimizers.step.plan import Bucket
from tf_opt.python.optimizers.step.settings import Settings
from tf_opt.python.optimizers.step.update_rule import Scalars
from tf_opt.python.optimizers.step.update_rule import UpdateRule
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.gradients import Gradient


def launch(
    rule: UpdateRule,
    settings: Settings,
    state: OptimizerState,
    bucket: Bucket,
    grads: Sequence[Gradient],
    frame: Frame,
    factors: Factors,
    scalars: Scalars,
    accumulated_rows: Sequence[tf.Tensor] = (),
) -> tf.Operation | None:
    """Updates a bucket's variables and slots by the custom op.

    Args:
        rule: The rule.
        settings: The step's options.
        state: The optimizer's state.
        bucket: The variables.
        grads: Their gradients.
        frame: The frame of the step.
        factors: The factors of the variables.
        scalars: The step's scalars.
        accumulated_rows: For each table, rows that are updated as well.

    Returns:
        In a graph, the op.
    """
    op, lists = rule.op, bucket.lists
    averages = frame.averages and not bucket.averages_later
    return resource_apply(
        op,
        grads,
        frame=StepFrame(
            accumulators=lists["accumulators"] if frame.accumulates else (),
            averages=lists["averages"] if averages else (),
            learning_rate_factors=factors.learning_rate,
            gradient_factors=factors.gradient,
            gradient_scale=frame.gradient_scale,
            clip_value=frame.clip_value,
            ema_momentum=frame.ema_momentum,
            overwrite_with_average=averages and frame.overwrite_with_average,
            enabled=frame.enabled,
            update=frame.update,
            **rounding_of(settings.rounding, state, bucket),
        ),
        lazy_mode=settings.lazy_mode,
        accumulated_rows=accumulated_rows,
        tables=bucket.names if bucket.sparse else (),
        weight_decay=factors.weight_decay,
        **{name: lists[name] for name in ("variables", *op.slots)},
        **{**rule.hyperparameters, **scalars},
    )


def rounding_of(
    settings: RoundingSettings,
    state: OptimizerState,
    bucket: Bucket,
    iteration: int | tf.Tensor | None = None,
) -> dict[str, Any]:
    """Returns the fields of a `StepFrame` that tell how to round.

    Args:
        settings: The options of rounding.
        state: The optimizer's state.
        bucket: The variables.
        iteration: The number of steps before this one; None: reads it, if
            anything depends on it.
    """
    fields: dict[str, Any] = {}
    if bucket.lists["master_weights"]:
        fields["master_weights"] = bucket.lists["master_weights"]
    if settings.needs_bits:
        if iteration is None:
            iteration = access.as_number(state.iterations)
        fields.update(
            variable_numbers=np.array(bucket.indices, np.float64),
            iteration=iteration,
            stochastic_rounding=settings.stochastic_rounding,
            seed=settings.seed,
        )
    return fields
