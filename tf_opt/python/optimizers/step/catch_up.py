"""Lets rows of lazy tables catch up outside of a step."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.step import frame as frames
from tf_opt.python.optimizers.step import plan as plans
from tf_opt.python.optimizers.step.composed import Composed
from tf_opt.python.optimizers.step.frame import Frame
from tf_opt.python.optimizers.step.frame import StepContext
from tf_opt.python.optimizers.step.launch import launch
from tf_opt.python.optimizers.step.plan import Bucket
from tf_opt.python.optimizers.step.settings import Settings
from tf_opt.python.optimizers.step.update_rule import UpdateRule
from tf_opt.python.optimizers.values.flags import Flag


def catch_up(
    rule: UpdateRule,
    settings: Settings,
    state: OptimizerState,
    variables: Sequence[Variable],
    rows: Sequence[tf.Tensor] | None = None,
    enabled: Flag = True,
) -> list[tf.Operation]:
    """Lets rows catch up, or all rows of the tables if `rows` is None.

    Returns:
        In a graph, the ops that do it.
    """
    are_sparse = [True] * len(variables)
    plan = plans.make(rule.op, settings, state, variables, are_sparse)
    context = StepContext(rule, settings, state, plan)
    scalars = rule.scalars(
        settings.learning_rate(), frames.update_count(settings, state)
    )
    ops: list[tf.Operation] = []
    for bucket in plan.buckets:
        factors = frames.factors_of(context, bucket)
        own = None if rows is None else [rows[i] for i in bucket.positions]
        with bucket.on_device(state):
            if not bucket.runs_op:
                Composed(context).catch_up(
                    bucket, own, enabled, factors, scalars
                )
                continue
            op = launch(
                context,
                bucket._replace(lazy=rows is not None),
                _no_slices(bucket),
                Frame(enabled=enabled, update=False),
                factors,
                scalars,
                own or (),
            )
        if op is not None:
            ops.append(op)
    return ops


def _no_slices(bucket: Bucket) -> list[tf.IndexedSlices]:
    return [
        tf.IndexedSlices(
            tf.zeros([0, *variable.shape[1:]], variable.dtype),
            tf.zeros([0], tf.int64),
        )
        for variable in bucket.variables
    ]
