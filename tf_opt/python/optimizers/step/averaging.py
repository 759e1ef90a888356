"""Chooses the variables whose moving averages follow outside of a launch."""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.step.composed import Composed
from tf_opt.python.optimizers.step.frame import Frame
from tf_opt.python.optimizers.step.plan import Plan
from tf_opt.python.optimizers.step.settings import Settings
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.flags import is_zero


def _dense(plan: Plan) -> set[int]:
    """Returns the indices of the variables with a dense gradient."""
    return {
        index
        for bucket in plan.buckets
        if not bucket.sparse
        for index in bucket.indices
    }


def remaining(
    settings: Settings,
    state: OptimizerState,
    plan: Plan,
    averaged: Iterable[int],
) -> list[int]:
    """Returns the indices of the variables whose averages have to follow.

    Args:
        settings: The step's options.
        state: The optimizer's state.
        plan: The step's plan.
        averaged: The indices of the variables whose averages have followed.
    """
    # In lazy mode the rows of variables without a gradient don't occur.
    indices = (
        _dense(plan) if settings.lazy_mode else set(range(len(state.variables)))
    )
    return sorted(indices - set(averaged))


def begin_tables(
    settings: Settings,
    state: OptimizerState,
    plan: Plan,
    composed: Composed,
) -> None:
    """In the first lazy step, makes averages of tables equal to the tables.

    A row's average starts before the row occurs for the first time.
    """
    if not settings.lazy_mode:
        return
    dense = _dense(plan)
    indices = [
        i
        for i, average in enumerate(state.averages)
        if average is not None and i not in dense
    ]

    def begin() -> None:
        # With a momentum of 0 the average becomes the variable.
        composed.average(indices, Frame(averages=True))

    is_first = is_zero(access.as_number(state.iterations))
    if isinstance(is_first, bool):
        if is_first:
            begin()
    else:
        tf.cond(is_first, begin, lambda: None)
