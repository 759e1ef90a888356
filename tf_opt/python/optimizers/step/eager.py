"""Eager steps in which one launch does everything.

With a small model, a Python call or an op takes as long as the update itself,
so these steps make as few of both as they can. All other steps take the usual
path, which also raises the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tf_opt.python.keras_internals import (
    Variable,
    given_learning_rate_of,
    tf_variable,
)
from tf_opt.python.ops.calls import eager_call
from tf_opt.python.optimizers.step.context import StepContext
from tf_opt.python.optimizers.step.launch import arguments_of
from tf_opt.python.optimizers.step.plan import Plan
from tf_opt.python.optimizers.step.update_rule import UpdateRule
from tf_opt.python.optimizers.values import variables as access


class RepeatedLaunch(NamedTuple):
    """A launch in which only the gradients differ from step to step.

    The op reads the learning rate and counts the steps itself.

    Attributes:
        call: The op, which takes the gradients.
        changes: `PlanKeeper.changes` when the options were read.
    """

    call: Callable[..., Any]
    changes: int

    def run(
        self, plan: Plan, grads: Sequence[Any], variables: Sequence[Variable]
    ) -> bool:
        """Runs a step of its plan; all else is as in `run_quickly`."""
        return _fit(grads, variables, plan) and _runs(self.call, grads)


def repeated_launch(
    context: StepContext, changes: int
) -> RepeatedLaunch | None:
    """Returns the launch that is each step of a plan, if there is one.

    It is valid until an attribute of the optimizer is assigned.
    """
    optimizer, rule, state = context.optimizer, context.rule, context.state
    # `learning_rate` would evaluate a schedule.
    rate, counter = given_learning_rate_of(optimizer), state.iterations
    # What Python code reads in each step.
    read = (
        state.unsaved.learning_rate_multipliers.factors,
        state.unsaved.weight_decay_multipliers.factors,
        *vars(optimizer).values(),
    )
    if (
        # A subclass may compute what it has.
        "_spec" not in vars(type(optimizer))
        or rule.spec.shared
        or context.use_ema
        or type(rule) is not UpdateRule
        or not isinstance(rate, keras.Variable)
        or not _is_launch(context)
        or any(
            isinstance(x, Variable) and x is not rate and x is not counter
            for x in read
        )
    ):
        return None
    together = (rate, counter, context.plan.variables[0])
    devices = {tf_variable(x).device for x in together}
    # A GPU's op reads its own memory.
    if len(devices) > 1 or "CPU" not in devices.pop():
        return None
    numbers = {
        "step": 1,
        "learning_rate": 0.0,
        "counter": [tf_variable(counter).handle],
        "rate": [tf_variable(rate).handle],
    }
    return RepeatedLaunch(_call(context, numbers), changes)


def run_quickly(
    context: StepContext, grads: Sequence[Any], variables: Sequence[Variable]
) -> bool:
    """Runs a whole step, if one launch does all of it.

    The context has a kept plan of a step without sparse gradients. Gradients
    and variables are those that the user gave. Returns whether it ran; if not,
    nothing was written.
    """
    rule, state, plan = context.rule, context.state, context.plan
    if not (_is_launch(context) and _fit(grads, variables, plan)):
        return False
    context.check_numbers()
    rate, updates = (
        access.read(x) if isinstance(x, keras.Variable) else x
        for x in (context.optimizer.learning_rate, state.iterations)
    )
    scalars = rule.scalars(rate, updates)
    if not _runs(_call(context, scalars), grads):
        return False
    state.commit(rule.next_shared(scalars, state, plan.variables), True)
    access.count_eagerly(state.iterations)
    return True


def _is_launch(context: StepContext) -> bool:
    """Returns whether one launch does all of the plan's steps."""
    state, plan = context.state, context.plan
    return (
        not state.working_copies
        and not state.since
        and len(plan.buckets) == 1
        and plan.buckets[0].op is not None
        and not (context.measures or context.accumulates)
        # The averages of all variables move.
        and not (context.use_ema and len(plan.variables) < len(state.variables))
    )


def _fit(
    grads: Sequence[Any], variables: Sequence[Variable], plan: Plan
) -> bool:
    """Returns whether the op takes the gradients as they are."""
    return (
        len(grads) == len(variables)
        and all(isinstance(gradient, tf.Tensor) for gradient in grads)
        # An op that runs asynchronously would refuse them too late.
        and (
            tf.config.experimental.get_synchronous_execution()
            or all(
                gradient.dtype == variable.dtype
                and gradient.shape == variable.shape
                for gradient, variable in zip(
                    grads, plan.variables, strict=True
                )
            )
        )
        and all(variable.constraint is None for variable in variables)
    )


def _call(
    context: StepContext, numbers: Mapping[str, Any]
) -> Callable[..., Any]:
    """Returns the call of a plan's op, with everything but the gradients."""
    (bucket,) = context.plan.buckets
    step = bucket.step(context, (), context.frame(enabled=True), numbers)
    own = bucket.op.inputs(arguments_of(context, step))
    return eager_call(bucket.op.name, own)


def _runs(call: Callable[..., Any], grads: Sequence[tf.Tensor]) -> bool:
    """Calls the op; returns False if it refuses what the step takes.

    It refuses gradients to broadcast, for example, before it writes anything.
    """
    try:
        call(gradients=grads)
    except (TypeError, ValueError, tf.errors.InvalidArgumentError):
        return False
    return True
