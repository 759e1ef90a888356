"""Launches the custom op for a bucket of variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_opt.python.functional.arithmetic import Flag, cond
from tf_opt.python.keras_internals import Variable
from tf_opt.python.ops.calls import resource_apply
from tf_opt.python.optimizers.step.composed import rows_accumulated
from tf_opt.python.optimizers.step.context import StepContext, needs_bits
from tf_opt.python.optimizers.step.plan import BucketStep
from tf_opt.python.optimizers.values import variables as access


def launch(
    context: StepContext,
    step: BucketStep,
    accumulated_rows: Sequence[tf.Tensor] = (),
) -> tf.Operation | None:
    """Updates a bucket's variables and slots by the custom op.

    The `accumulated_rows` of each table are updated as well. In a graph it
    returns the op.
    """
    return resource_apply(
        step.bucket.op,
        step.grads,
        accumulated_rows=accumulated_rows,
        tables=step.bucket.names,
        **arguments_of(context, step),
    )


def arguments_of(context: StepContext, step: BucketStep) -> dict[str, Any]:
    """Returns an op's arguments, besides gradients, by name."""
    bucket, rule, _, frame, factors, scalars = step
    own, others = rule.hyperparameters, rule.spec.op_arguments
    arguments = {
        **bucket.lists,
        **own,
        **{name: own.get(x, x) for name, x in others.items()},
        **scalars,
        "lazy": bucket.rows_only,
        "weight_decay": factors.weight_decay,
        "learning_rate_factors": factors.learning_rate,
        "gradient_factors": factors.gradient,
        "gradient_scale": frame.gradient_scale,
        "clip_value": frame.clip_value,
        "ema_momentum": frame.ema_momentum,
        "overwrite_with_average": frame.overwrite_with_average,
        "enabled": frame.enabled,
        "update": frame.update,
    }
    if not frame.accumulates:
        arguments["accumulators"] = ()
    # The average of a variable that is updated twice moves once, afterwards.
    if not frame.averages or context.plan.repeats:
        arguments |= {"averages": (), "overwrite_with_average": False}
    if needs_bits(context):
        arguments |= {
            "variable_numbers": np.array(bucket.indices, np.float64),
            "iteration": access.as_number(context.state.iterations),
            "stochastic_rounding": context.stochastic_rounding,
            "seed": context.seed,
        }
    return arguments


def accumulated_rows(
    context: StepContext, update: Flag
) -> list[list[tf.Tensor]]:
    """Returns for each bucket the rows with accumulated gradients.

    A row counts if anything in it isn't zero. Only the custom ops take such
    rows, in lazy mode.
    """
    found: list[list[tf.Tensor]] = []
    seen: set[int] = set()
    for bucket in context.plan.buckets:
        rows = []
        if bucket.rows_only and bucket.op and context.accumulates:
            for index in bucket.indices:
                # If a table is updated twice, only its first update needs rows.
                needed = index not in seen and update
                accumulator = context.state.accumulators[index]
                rows.append(_rows_of(accumulator, needed))
                seen.add(index)
        found.append(rows)
    return found


def _rows_of(accumulator: Variable, needed: Flag) -> tf.Tensor:
    return cond(
        needed,
        lambda: tf.where(rows_accumulated(accumulator))[:, 0],
        lambda: tf.zeros([0], tf.int64),
    )
