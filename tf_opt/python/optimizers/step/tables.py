"""Rows of accumulators, and checks of a step."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tf_opt.python.functional.rule_spec import FRACTION
from tf_opt.python.functional.rule_spec import Number
from tf_opt.python.functional.step_frame import is_known
from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers.step.composed import rows_accumulated
from tf_opt.python.optimizers.step.frame import StepContext
from tf_opt.python.optimizers.step.plan import Plan
from tf_opt.python.optimizers.values import gradients
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.flags import Flag
from tf_opt.python.optimizers.values.flags import cond
from tf_opt.python.optimizers.values.gradients import Gradient
from tf_opt.python.tensorflow_internals import inside_xla

_EMA_MOMENTUM = Number("ema_momentum", FRACTION)


def accumulated_rows(
    context: StepContext, update: Flag
) -> list[list[tf.Tensor]]:
    """Returns for each bucket the rows with accumulated gradients.

    A row counts if anything in it isn't zero. Only the custom ops take such
    rows, in lazy mode.
    """
    settings = context.settings
    found: list[list[tf.Tensor]] = []
    seen: set[int] = set()
    for bucket in context.plan.buckets:
        rows = []
        if bucket.lazy and bucket.runs_op and settings.accumulates:
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


def check_numbers(context: StepContext) -> list[tf.Operation]:
    """Checks the numbers that no launch checks; returns what `check` does.

    A variable may have been assigned since it became an argument.
    """
    if inside_xla():
        return []
    rule, settings, _, plan = context
    values = {**rule.hyperparameters, "ema_momentum": settings.ema_momentum}
    numbers = rule.spec.beside_op
    if not all(bucket.runs_op for bucket in plan.buckets):
        averages = (_EMA_MOMENTUM,) if settings.use_ema else ()
        numbers = (x for x in rule.spec.hyperparameters if x.in_rule)
        numbers = (*numbers, *averages)
    checks: list[tf.Operation] = []
    for number in numbers:
        value = values[number.name]
        if isinstance(value, Variable):
            value = access.as_number(value)
        is_right = number.range.has(value)
        if not is_known(is_right, True):
            text = f"`{number.name}` must be {number.range.text}, got"
            checks.append(tf.debugging.Assert(is_right, [text, value]))
    return checks


def check(
    plan: Plan,
    grads: Sequence[Gradient],
    variables: Sequence[Variable],
    *,
    moves_rows: bool,
) -> list[tf.Operation]:
    """Checks everything that a step refuses, before it writes anything.

    A launch checks its own rows before it writes, so those of the first bucket
    are left to it, unless rows are moved before it runs. Gradients and
    variables are those that the user gave.

    Returns:
        In a graph, the ops that check.
    """
    checks: list[tf.Operation] = []
    for k, bucket in enumerate(plan.buckets):
        checks_itself = (
            k == 0 and bucket.sparse and bucket.runs_op and not moves_rows
        )
        for i in bucket.positions:
            checks += gradients.check_when_run(
                grads[i], variables[i], rows=not checks_itself
            )
    return checks
