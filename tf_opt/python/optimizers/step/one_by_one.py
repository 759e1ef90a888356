"""Updates variables through an `update_step` that a subclass overrides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_opt.python.functional import arithmetic, stochastic_rounding
from tf_opt.python.functional.arithmetic import Flag, Scalar
from tf_opt.python.functional.step_frame import is_known
from tf_opt.python.functional.storage_rounding import is_16_bit
from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers.state.storage import Weight
from tf_opt.python.optimizers.step import frame as frames
from tf_opt.python.optimizers.step import plan as plans
from tf_opt.python.optimizers.step import transfer
from tf_opt.python.optimizers.step.catch_up import catch_up
from tf_opt.python.optimizers.step.composed import Composed
from tf_opt.python.optimizers.step.launch import launch
from tf_opt.python.optimizers.step.settings import Settings
from tf_opt.python.optimizers.values import gradients
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.gradients import GradientLike
from tf_opt.python.tensorflow_internals import can_meet_in_conditions


def update(
    context: frames.StepContext,
    composed: Composed,
    steps: Sequence[frames.BucketStep],
    enabled: Flag,
) -> None:
    """Calls `update_step` for each variable, as Keras does for every copy.

    First, `composed` finishes the gradients of all buckets.
    """
    _, settings, state, plan = context
    variables = list(plan.variables)
    finished: list[Any] = [None] * len(variables)
    learning_rate = settings.learning_rate()
    learning_rates: list[Any] = [learning_rate] * len(variables)
    for step in steps:
        with step.bucket.on_device(state):
            ready = composed.finished_gradients(step)
        for k, i in enumerate(step.bucket.positions):
            finished[i] = gradients.cast(ready[k], variables[i].dtype)
            factor = step.factors.of(k).learning_rate
            if settings.overrides_update_step and not is_known(factor, 1):
                learning_rates[i] = factor * tf.cast(learning_rate, tf.float64)
    # A subclass may write any variable: if the step is skipped, all of them get
    # their old values back.
    kept = [*variables, *state.list_all()] if enabled is not True else []
    before = [tf.identity(tf.convert_to_tensor(x)) for x in kept]

    def update_all(
        strategy: tf.distribute.Strategy, *lists: Sequence[Any]
    ) -> None:
        for variable, *args in zip(*lists, strict=True):
            strategy.extended.update(
                variable, settings.update_one, args=args, group=False
            )

    lists = (variables, finished, learning_rates)
    if state.working_copies:
        for variable, *args in zip(*lists, strict=True):
            with state.on_device(state.index_of(variable)):
                settings.update_one(variable, *args)
    elif not access.in_replica() or can_meet_in_conditions():
        update_all(settings.strategy, *lists)
    else:
        replica = tf.distribute.get_replica_context()
        replica.merge_call(update_all, args=lists)
    for variable, old in zip(kept, before, strict=True):
        new = tf.convert_to_tensor(variable)
        access.assign(variable, tf.where(enabled, new, old))


def decay(
    context: frames.StepContext, variable: Variable, learning_rate: Scalar
) -> None:
    """Applies decoupled weight decay before a rule that isn't tf_opt's."""
    rule, settings, state, _ = context
    index = state.index_of(variable)
    own = rule.of(state.forms[index]).weight_decay(settings.weight_decay)
    if own is None or state.excluded[index]:
        return
    weight_decay = state.weight_decays(own, [index])
    weight = Weight(state, index, variable)
    dtype = arithmetic.slot_dtype(weight.stored.dtype)
    factor = tf.reshape(arithmetic.kept_part(learning_rate, weight_decay), [])
    weight.write(
        tf.cast(factor, dtype) * tf.cast(weight.value, dtype),
        True,
        settings.rounding(state),
        stream=stochastic_rounding.DECAYED_VARIABLE,
    )


def check_storage(
    settings: Settings, variable: Variable, class_name: str
) -> None:
    """Raises a ValueError if an option changes how the variable is stored.

    A subclass has updated the variable, without rounding.
    """
    dtype = tf.dtypes.as_dtype(variable.dtype)
    for argument in ("master_weights", "stochastic_rounding"):
        if getattr(settings, argument) and is_16_bit(dtype):
            raise ValueError(
                f"`{argument}` must be False where `update_step` updates a "
                f"variable of {dtype.name} itself, as {class_name}'s does with "
                f"`{gradients.path_of(variable)}`. Call `super().update_step` "
                f"to update it. Received: {argument}=True"
            )


def update_variable(
    context: frames.StepContext,
    gradient: GradientLike,
    variable: Variable,
    learning_rate: Scalar,
) -> frozenset[str]:
    """Updates one variable by the rule; returns the implementations."""
    rule, settings, state, _ = context
    gradient = gradients.as_gradient(gradient, variable)
    are_sparse = plans.may_stay_sparse(settings, state, [gradient], [variable])
    context = context.with_plan([variable], are_sparse)
    plan = context.plan
    (bucket,), (updated,) = plan.buckets, plan.variables
    factors = frames.factors_of(context, bucket)
    if settings.overrides_update_step:
        # The caller's learning rate includes the multiplier.
        factors = frames.Factors(weight_decay=factors.weight_decay)
    grads = [
        gradients.for_update(
            gradient,
            updated,
            variable,
            sparse=bucket.sparse,
            for_op=bucket.runs_op,
        )
    ]
    scalars = rule.scalars(learning_rate, frames.update_count(settings, state))
    frame = frames.Frame()
    step = frames.BucketStep(bucket, grads, frame, factors, scalars)
    moved = transfer.moved(state, transfer.parts_of_rows(state, [variable]))
    with tf.control_dependencies(context.check_numbers()), moved:
        if not bucket.runs_op:
            Composed(context).update(step)
            return plan.implementations
        if bucket.catches_up and not bucket.sparse:
            catch_up(context, [variable])
        launch(context, step)
    return plan.implementations
