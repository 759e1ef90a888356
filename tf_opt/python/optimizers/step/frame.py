"""Frame of a step, and the factors of single variables."""

from __future__ import annotations

import dataclasses
import math
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.optimizers.state import factors
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.step.measuring import Measures
from tf_opt.python.optimizers.step.plan import Bucket
from tf_opt.python.optimizers.step.settings import Settings
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.flags import Flag
from tf_opt.python.optimizers.values.flags import both
from tf_opt.python.optimizers.values.flags import choose
from tf_opt.python.optimizers.values.flags import is_zero


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
    settings: Settings,
    state: OptimizerState,
    *,
    update: Flag = True,
    enabled: Flag = True,
) -> Frame:
    """Returns the frame of a step.

    Args:
        settings: The step's options.
        state: The optimizer's state.
        update: Whether the step updates, or only accumulates.
        enabled: Whether the step does anything.
    """
    clip_value = float(settings.clipvalue or 0)
    momentum: Scalar = 0.0
    overwrite: Flag = False
    if settings.use_ema:
        count = update_count(settings, state)
        # In the first step an average becomes the variable.
        momentum = choose(
            is_zero(count), 0.0, access.as_number(settings.ema_momentum)
        )
        if settings.ema_overwrite_frequency:
            overwrite = is_zero((count + 1) % settings.ema_overwrite_frequency)
    return Frame(
        gradient_scale=settings.gradient_scale,
        accumulates=settings.accumulates,
        enabled=enabled,
        update=update,
        # Keras doesn't clip by a negative value.
        clip_value=clip_value if clip_value > 0 else math.inf,
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
    return is_zero((count + 1) % settings.micro_steps)


class Factors(NamedTuple):
    """Numbers of single variables: one for all of them, or one for each."""

    gradient: Any = 1.0
    learning_rate: Any = 1.0
    weight_decay: Any = 0.0

    def of(self, i: int) -> Factors:
        """Returns the numbers of the i-th variable."""
        return Factors(*(_element(numbers, i) for numbers in self))


def factors_of(
    settings: Settings,
    state: OptimizerState,
    bucket: Bucket,
    gradient: Scalar,
) -> Factors:
    """Returns the factors of a bucket's variables.

    Args:
        settings: The step's options.
        state: The optimizer's state.
        bucket: The variables.
        gradient: The gradients' factor, one for all or one for each.
    """
    return Factors(
        gradient=gradient,
        learning_rate=factors.learning_rate_factors(state, bucket.indices),
        weight_decay=factors.weight_decays(
            None if settings.decays_before_rule else settings.weight_decay,
            state,
            bucket.indices,
        ),
    )


# An infinite norm makes a factor that is NaN.
@np.errstate(invalid="ignore")
def gradient_factors(
    settings: Settings, k: int, measures: Measures | None
) -> Scalar:
    """Returns the factor of the k-th bucket's gradients.

    It forms the mean over micro-steps and clips by norms.
    """
    factor = 1.0 / settings.micro_steps
    if settings.clipnorm and settings.clipnorm > 0:
        bound = float(settings.clipnorm)
        return factor * (bound / _maximum(measures.norms[k], bound))
    if settings.global_clipnorm and settings.global_clipnorm > 0:
        bound = float(settings.global_clipnorm)
        norm = measures.global_norm
        # If the norm is NaN or infinite, all gradients become NaN, as in Keras.
        return factor * (bound / _maximum(norm, bound) + (norm - norm))
    return factor


def _maximum(x: Any, bound: float) -> Any:
    """Returns the larger one of each element and `bound`; NaNs stay NaNs."""
    return (tf.maximum if tf.is_tensor(x) else np.maximum)(x, bound)


def _element(numbers: Any, i: int) -> Scalar:
    """Returns the i-th of several numbers, or the only one."""
    if isinstance(numbers, (int, float)):
        return numbers
    if isinstance(numbers, (list, np.ndarray)):
        return numbers[i] if np.ndim(numbers) else numbers
    if tf.is_tensor(numbers) and numbers.shape.rank == 1:
        return numbers[i]
    return numbers
