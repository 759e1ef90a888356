"""Frame of a step, and the factors of single variables."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tf_opt.python.functional.arithmetic import (
    Flag,
    Scalar,
    both,
    choose,
    equal,
)
from tf_opt.python.functional.rule_spec import FRACTION
from tf_opt.python.optimizers.step.context import StepContext
from tf_opt.python.optimizers.step.plan import Bucket
from tf_opt.python.optimizers.step.update_rule import Scalars
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.gradients import Gradient


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
    momentum: Scalar = 0.0
    overwrite: Flag = False
    if context.use_ema:
        count = context.update_count()
        momentum = access.as_number(context.ema_momentum)
        # In the first step an average becomes the variable.
        begins = context.begins_averages and equal(count, 0)
        if not isinstance(context.ema_momentum, (int, float)):
            # The op refuses a variable's wrong value.
            begins = both(begins, FRACTION.has(momentum))
        momentum = choose(begins, 0.0, momentum)
        if context.ema_overwrite_frequency:
            since = (count + 1) % context.ema_overwrite_frequency
            overwrite = equal(since, 0)
    return Frame(
        gradient_scale=context.gradient_scale,
        accumulates=context.accumulates,
        enabled=enabled,
        update=update,
        clip_value=(
            math.inf if context.clipvalue is None else context.clipvalue
        ),
        averages=context.use_ema,
        ema_momentum=momentum,
        overwrite_with_average=overwrite,
    )


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
    state, rule = context.state, context.rule.of(bucket.form)
    decay = rule.weight_decay(context.weight_decay)
    learning_rate = state.learning_rate_factors(bucket.indices)
    if (factor := rule.learning_rate_factor()) is not None:
        learning_rate = learning_rate * factor
    return Factors(
        gradient=gradient,
        learning_rate=learning_rate,
        weight_decay=state.weight_decays(decay, bucket.indices),
    )
