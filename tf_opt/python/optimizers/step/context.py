"""Everything that one step reads: the optimizer's options, rule and state."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any, get_args

import keras
import tensorflow as tf

from tf_opt.python.functional.arithmetic import (
    Flag,
    Scalar,
    both,
    choose,
    equal,
    is_known,
)
from tf_opt.python.keras_internals import Optimizer, Variable
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.state.storage import Rounding
from tf_opt.python.optimizers.step.update_rule import Scalars, UpdateRule
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.validation import EMA_MOMENTUM
from tf_opt.python.tensorflow_internals import inside_xla


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


class StepContext:
    """Everything that the parts of a step read.

    Attributes that aren't described here are the optimizer's arguments, as they
    are when the step begins.

    Attributes:
        optimizer: The optimizer, whose learning rate is read when it is needed.
        rule: The rule, in the form that updates each element by itself.
        state: The optimizer's state.
        plan: The step's `Plan`; None while there is none yet.
        clipnorm: The bound, > 0, or None, as for `clipvalue` and
            `global_clipnorm`. Infinity: the bound is a variable that doesn't
            clip at the moment.
        gradient_scale: The factor of the gradients.
        are_summed: Whether gradients are sums over the replicas already.
        begins_averages: Whether an average begins as the variable after the
            first update, not before it.
        micro_steps: The number of steps whose gradients one update sums.
        accumulates: Whether gradients are summed over several steps.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        rule: UpdateRule,
        state: OptimizerState,
        gradient_scale: Scalar | None = None,
        *,
        are_summed: bool = False,
        begins_averages: bool = True,
    ) -> None:
        """Reads an optimizer's options.

        `gradient_scale` is the factor of the gradients of a loss that a
        `LossScaleOptimizer` has scaled; None: there is no such optimizer. With
        it, a step is skipped if a gradient isn't finite.
        """
        self.optimizer = optimizer
        self.rule = rule
        self.state = state
        self.plan: Any = None
        self.implementation = optimizer.implementation
        self.weight_decay = optimizer.weight_decay
        self.clipnorm = _clip_bound(optimizer.clipnorm)
        self.clipvalue = _clip_bound(optimizer.clipvalue)
        self.global_clipnorm = _clip_bound(optimizer.global_clipnorm)
        self.use_ema = optimizer.use_ema
        self.ema_momentum = optimizer.ema_momentum
        self.ema_overwrite_frequency = optimizer.ema_overwrite_frequency
        self.skip_nonfinite = optimizer.skip_nonfinite
        self.gradient_scale = gradient_scale
        if gradient_scale is None:
            self.gradient_scale = _inverse_scale(optimizer.loss_scale_factor)
        else:
            self.skip_nonfinite = True
        self.are_summed = are_summed
        self.begins_averages = begins_averages
        self.micro_steps = optimizer.gradient_accumulation_steps or 1
        self.accumulates = self.micro_steps > 1
        self.track_gradient_norm = optimizer.track_gradient_norm
        self.stochastic_rounding = optimizer.stochastic_rounding
        self.seed = optimizer.seed
        self.state_dtype = optimizer.state_dtype

    def replace(self, **changes: Any) -> StepContext:
        """Returns a copy in which some attributes are others."""
        new = copy.copy(self)
        vars(new).update(changes)
        return new

    # ---- Options. ----

    @property
    def sums_replicas(self) -> bool:
        """Whether a step sums its gradients over several replicas."""
        return access.in_several_replicas() and not self.are_summed

    @property
    def accumulates_in_replicas(self) -> bool:
        """Whether each of several replicas accumulates, without the op."""
        return (
            self.accumulates
            and self.sums_replicas
            and not self.state.working_copies
        )

    @property
    def decays(self) -> bool:
        """Whether there may be weight decay."""
        return not (self.weight_decay is None or is_known(self.weight_decay, 0))

    @property
    def other_rows_stay(self) -> bool:
        """Whether rows without a gradient don't change.

        That is so if the rule says so, and there is no decay, average, sum or
        master weight.
        """
        return (
            self.state.spec.rests
            and not self.decays
            and not (self.state.masters or self.use_ema or self.accumulates)
        )

    @property
    def measures(self) -> bool:
        """Whether gradients have to be measured."""
        return (
            self.skip_nonfinite
            or self.track_gradient_norm
            or self.clipnorm is not None
            or self.global_clipnorm is not None
        )

    def rounding(self) -> Rounding:
        """Returns the rounding of one step."""
        return Rounding(self.seed, self.stochastic_rounding, self.state)

    # ---- Numbers. ----

    def is_update(self) -> Flag:
        """Returns whether this micro-step is the last of an update."""
        if not self.accumulates:
            return True
        count = access.as_number(self.state.iterations)
        return equal((count + 1) % self.micro_steps, 0)

    def scalars(self) -> Scalars:
        """Returns the step's scalars."""
        updates = self.state.update_count(self.micro_steps)
        return self.rule.scalars(self.optimizer.learning_rate, updates)

    def frame(self, *, update: Flag = True, enabled: Flag) -> Frame:
        """Returns the frame of a step; flags as in `Frame`."""
        momentum: Scalar = 0.0
        overwrite: Flag = False
        if self.use_ema:
            count = self.state.update_count(self.micro_steps)
            momentum = access.as_number(self.ema_momentum)
            # In the first step an average becomes the variable.
            begins = self.begins_averages and equal(count, 0)
            if not isinstance(self.ema_momentum, (int, float)):
                # The op refuses a variable's wrong value.
                begins = both(begins, EMA_MOMENTUM.range.has(momentum))
            momentum = choose(begins, 0.0, momentum)
            if self.ema_overwrite_frequency:
                since = (count + 1) % self.ema_overwrite_frequency
                overwrite = equal(since, 0)
        return Frame(
            gradient_scale=self.gradient_scale,
            accumulates=self.accumulates,
            enabled=enabled,
            update=update,
            clip_value=math.inf if self.clipvalue is None else self.clipvalue,
            averages=self.use_ema,
            ema_momentum=momentum,
            overwrite_with_average=overwrite,
        )

    def check_numbers(self) -> list[tf.Operation]:
        """Checks the numbers that no launch checks.

        A variable may have been assigned since it became an argument.

        Returns:
            In a graph, the ops that check.
        """
        numbers = self.rule.spec.beside_op
        if not all(bucket.op for bucket in self.plan.buckets):
            numbers = self.rule.spec.hyperparameters
            numbers += (EMA_MOMENTUM,) if self.use_ema else ()
        if not numbers or inside_xla():
            return []
        values = {
            **self.rule.hyperparameters,
            EMA_MOMENTUM.name: self.ema_momentum,
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


def needs_bits(options: StepContext | keras.optimizers.Optimizer) -> bool:
    """Returns whether anything is rounded at random."""
    return options.stochastic_rounding or options.state_dtype == "bfloat16"


def _clip_bound(x: Any) -> Scalar | None:
    """Returns a bound for clipping; None if nothing is clipped.

    As in Keras, a number <= 0 doesn't clip. Nor does infinity.
    """
    if x is None:
        return None
    bound = access.as_number(x) if isinstance(x, Variable) else x
    if isinstance(bound, tf.Tensor) and not tf.executing_eagerly():
        return tf.where(bound > 0, bound, math.inf)
    return float(bound) if 0 < bound < math.inf else None


def _inverse_scale(loss_scale: Any) -> Scalar:
    """Returns the gradients' factor for a `loss_scale_factor`."""
    if loss_scale is None:
        return 1.0
    if isinstance(loss_scale, (*get_args(Variable), tf.Tensor)):
        return 1 / access.as_number(loss_scale)
    return 1.0 / loss_scale
