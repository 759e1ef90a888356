"""Options that the user chose, as one step sees them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import keras
import tensorflow as tf

from tf_opt.python.functional.arithmetic import Scalar, is_known
from tf_opt.python.keras_internals import Number, Variable
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.state.storage import Rounding
from tf_opt.python.optimizers.values import variables as access


class Settings(NamedTuple):
    """The options of a step, read from the optimizer when the step begins.

    Those that aren't described here are arguments of the optimizer.

    Attributes:
        learning_rate: Returns the learning rate.
        clipnorm: The bound, > 0, or None, as for `clipvalue` and
            `global_clipnorm`. Infinity: the bound is a variable that doesn't
            clip at the moment.
        gradient_scale: The factor of the gradients.
        are_summed: Whether gradients are sums over the replicas already.
        begins_averages: Whether an average begins as the variable after the
            first update, not before it.
        micro_steps: The number of steps whose gradients one update sums.
    """

    implementation: str
    learning_rate: Callable[[], Scalar]
    weight_decay: Number | None
    clipnorm: Scalar | None
    clipvalue: Scalar | None
    global_clipnorm: Scalar | None
    use_ema: bool
    ema_momentum: Scalar
    ema_overwrite_frequency: int | None
    gradient_scale: Scalar
    are_summed: bool
    begins_averages: bool
    micro_steps: int
    skip_nonfinite: bool
    track_gradient_norm: bool
    master_weights: bool
    stochastic_rounding: bool
    seed: int | None
    state_dtype: str | None

    @classmethod
    def of(
        cls,
        optimizer: keras.optimizers.Optimizer,
        gradient_scale: Scalar | None = None,
        *,
        are_summed: bool = False,
    ) -> Settings:
        """Reads an optimizer's options for its next step.

        `gradient_scale` is the factor of the gradients of a loss that a
        `LossScaleOptimizer` has scaled; None: there is no such optimizer. With
        it, a step is skipped if a gradient isn't finite.
        """
        is_scaled = gradient_scale is not None
        if not is_scaled:
            gradient_scale = _inverse_scale(optimizer.loss_scale_factor)
        return cls(
            implementation=optimizer.implementation,
            learning_rate=lambda: optimizer.learning_rate,
            weight_decay=optimizer.weight_decay,
            clipnorm=_clip_bound(optimizer.clipnorm),
            clipvalue=_clip_bound(optimizer.clipvalue),
            global_clipnorm=_clip_bound(optimizer.global_clipnorm),
            use_ema=optimizer.use_ema,
            ema_momentum=optimizer.ema_momentum,
            ema_overwrite_frequency=optimizer.ema_overwrite_frequency,
            gradient_scale=gradient_scale,
            are_summed=are_summed,
            begins_averages=optimizer._begins_averages,
            micro_steps=optimizer.gradient_accumulation_steps or 1,
            skip_nonfinite=optimizer.skip_nonfinite or is_scaled,
            track_gradient_norm=optimizer.track_gradient_norm,
            master_weights=optimizer.master_weights,
            stochastic_rounding=optimizer.stochastic_rounding,
            seed=optimizer.seed,
            state_dtype=optimizer.state_dtype,
        )

    @property
    def accumulates(self) -> bool:
        """Whether gradients are summed over several steps."""
        return self.micro_steps > 1

    @property
    def sums_replicas(self) -> bool:
        """Whether a step sums its gradients over several replicas."""
        return access.in_several_replicas() and not self.are_summed

    @property
    def decays(self) -> bool:
        """Whether there may be weight decay."""
        return not (self.weight_decay is None or is_known(self.weight_decay, 0))

    @property
    def measures(self) -> bool:
        """Whether gradients have to be measured."""
        return (
            self.skip_nonfinite
            or self.track_gradient_norm
            or self.clipnorm is not None
            or self.global_clipnorm is not None
        )

    @property
    def launches_once(self) -> bool:
        """Whether one launch does everything for its variables."""
        return not (self.measures or self.accumulates)

    def rounding(self, state: OptimizerState) -> Rounding:
        """Returns the rounding of one step."""
        return Rounding(self.seed, self.stochastic_rounding, state)


def needs_bits(options: Settings | keras.optimizers.Optimizer) -> bool:
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
