"""Context and frame of a step, and the factors of single variables."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_opt.python.functional.arithmetic import (
    Flag,
    Scalar,
    both,
    choose,
    equal,
    is_known,
)
from tf_opt.python.functional.rule_spec import FRACTION, Number
from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.step.plan import Bucket, Plan, make
from tf_opt.python.optimizers.step.settings import Settings
from tf_opt.python.optimizers.step.update_rule import Scalars, UpdateRule
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.gradients import Gradient
from tf_opt.python.tensorflow_internals import inside_xla

_EMA_MOMENTUM = Number("ema_momentum", FRACTION)


class StepContext(NamedTuple):
    """Everything that the parts of a step read.

    Attributes:
        rule: The rule, in the form that updates each element by itself.
        settings: The step's options.
        state: The optimizer's state.
        plan: The step's plan; None while there is none yet.
    """

    rule: UpdateRule
    settings: Settings
    state: OptimizerState
    plan: Plan | None = None

    def with_plan(
        self, variables: Sequence[Variable], are_sparse: Sequence[bool] | None
    ) -> StepContext:
        """Returns the context of a step outside of `PlanKeeper.of_step`."""
        rule, settings, state, _ = self
        plan = make(rule, settings, state, variables, are_sparse)
        return StepContext(rule, settings, state, plan)

    def scalars(self) -> Scalars:
        """Returns the step's scalars."""
        updates = update_count(self.settings, self.state)
        return self.rule.scalars(self.settings.learning_rate(), updates)

    def rule_of(self, bucket: Bucket) -> UpdateRule:
        """Returns the rule of a bucket's variables."""
        return self.rule.of(bucket.form)

    def check_numbers(self) -> list[tf.Operation]:
        """Checks the numbers that no launch checks.

        A variable may have been assigned since it became an argument.

        Returns:
            In a graph, the ops that check.
        """
        if inside_xla():
            return []
        spec, settings = self.rule.spec, self.settings
        numbers = spec.beside_op
        if not all(bucket.runs_op for bucket in self.plan.buckets):
            numbers = spec.hyperparameters
            numbers += (_EMA_MOMENTUM,) if settings.use_ema else ()
        values = {
            **self.rule.hyperparameters,
            _EMA_MOMENTUM.name: settings.ema_momentum,
        }
        checks: list[tf.Operation] = []
        for number in numbers:
            value = values[number.name]
            if value is None:
                continue
            if isinstance(value, Variable):
                value = access.as_number(value)
            is_right = number.range.has(value)
            if not is_known(is_right, True):
                text = f"`{number.name}` must be {number.range.text}, got"
                checks.append(tf.debugging.Assert(is_right, [text, value]))
        return checks


@dataclasses.dataclass(frozen=True)
class Frame:
    """The scalars around the rule, the same for all variables of a step.

    Attributes:
        gradient_scale: The factor of the gradients.
        accumulates: Whether accumulators are added to the gradients.
        enabled: Whether the step does anything.
        update: Whether it updates, or only accumulates.
        clip_value: The largest magnitude of a gradient's element.
        averages: Whether moving averages follow.
        ema_momentum: The decay of these averages.
        overwrite_with_average: Whether the variables become their averages.
    """

    gradient_scale: Scalar = 1.0
    accumulates: bool = False
    enabled: Flag = True
    update: Flag = True
    clip_value: Scalar = math.inf
    averages: bool = False
    ema_momentum: Scalar = 0.0
    overwrite_with_average: Flag = False

    @property
    def commits(self) -> Flag:
        """Whether variables are updated."""
        return both(self.enabled, self.update)


def frame_of(
    context: StepContext, *, update: Flag = True, enabled: Flag
) -> Frame:
    """Returns the frame of a step; flags as in `Frame`."""
    settings = context.settings
    momentum: Scalar = 0.0
    overwrite: Flag = False
    if settings.use_ema:
        count = update_count(settings, context.state)
        momentum = access.as_number(settings.ema_momentum)
        # In the first step an average becomes the variable.
        begins = settings.begins_averages and equal(count, 0)
        if not isinstance(settings.ema_momentum, (int, float)):
            # The op refuses a variable's wrong value.
            begins = both(begins, FRACTION.has(momentum))
        momentum = choose(begins, 0.0, momentum)
        if settings.ema_overwrite_frequency:
            since = (count + 1) % settings.ema_overwrite_frequency
            overwrite = equal(since, 0)
    return Frame(
        gradient_scale=settings.gradient_scale,
        accumulates=settings.accumulates,
        enabled=enabled,
        update=update,
        clip_value=(
            math.inf if settings.clipvalue is None else settings.clipvalue
        ),
        averages=settings.use_ema,
        ema_momentum=momentum,
        overwrite_with_average=overwrite,
    )


def update_count(settings: Settings, state: OptimizerState) -> int | tf.Tensor:
    """Returns how many updates came before this step."""
    count = access.as_number(state.iterations)
    return count // settings.micro_steps if settings.accumulates else count


def is_update(settings: Settings, state: OptimizerState) -> Flag:
    """Returns whether this micro-step is the last of an update."""
    if not settings.accumulates:
        return True
    count = access.as_number(state.iterations)
    return equal((count + 1) % settings.micro_steps, 0)


class Factors(NamedTuple):
    """Numbers of single variables: one for all of them, or one for each."""

    gradient: Any = 1.0
    learning_rate: Any = 1.0
    weight_decay: Any = 0.0

    def of(self, i: int) -> Factors:
        """Returns the numbers of the i-th variable."""
        return Factors(
            *(x[i] if len(getattr(x, "shape", ())) else x for x in self)
        )


class BucketStep(NamedTuple):
    """One step of a bucket's variables."""

    bucket: Bucket
    grads: Sequence[Gradient]
    frame: Frame
    factors: Factors
    scalars: Scalars


def factors_of(
    context: StepContext, bucket: Bucket, gradient: Scalar = 1.0
) -> Factors:
    """Returns the factors of a bucket's variables."""
    _, settings, state, _ = context
    rule = context.rule_of(bucket)
    decay = rule.weight_decay(settings.weight_decay)
    learning_rate = state.learning_rate_factors(bucket.indices)
    if (factor := rule.learning_rate_factor()) is not None:
        learning_rate = learning_rate * factor
    return Factors(
        gradient=gradient,
        learning_rate=learning_rate,
        weight_decay=state.weight_decays(decay, bucket.indices),
    )
