"""Schedule-Free AdamW on pure tensors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_opt.python.functional import arithmetic, rule_spec
from tf_opt.python.functional.arithmetic import Scalar, TensorLike
from tf_opt.python.functional.pure_step import pure_step
from tf_opt.python.functional.update import Formula


class ScheduleFreeAdamWResult(NamedTuple):
    """Result of `schedule_free_adamw`: the new variable and state."""

    variable: tf.Tensor
    z: tf.Tensor
    v: tf.Tensor
    learning_rate_max: tf.Tensor
    weight_sum: tf.Tensor


def schedule_free_adamw(
    variable: TensorLike,
    gradient: TensorLike,
    z: TensorLike,
    v: TensorLike,
    learning_rate_max: Scalar = 0.0,
    weight_sum: Scalar = 0.0,
    *,
    step: Scalar,
    learning_rate: Scalar = 2.5e-3,
    beta_1: Scalar = 0.9,
    beta_2: Scalar = 0.999,
    epsilon: Scalar = 1e-8,
    warmup_steps: Scalar = 0,
    weight_lr_power: Scalar = 2.0,
    r: Scalar = 0.0,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
    decay_in_direction: bool = True,
) -> ScheduleFreeAdamWResult:
    r"""Computes one step of Schedule-Free AdamW on one tensor.

    Args:
        z: Where gradient steps lead, only in the first of these types. Any
            value will do for step 1, which begins at the variable.
        v: Second moment.
        learning_rate_max: The largest $\gamma$ of the steps so far, a scalar; 0
            at first. The new one is float64.
        weight_sum: The sum of the weights $w_i$ of the steps so far, divided by
            `learning_rate_max ** weight_lr_power`; 0 at first. With 0 in a
            later step, all steps before it have weighed the same.

    Example:

    >>> from tf_opt import functional as f
    >>> new = f.schedule_free_adamw(
    ...     1.0, 0.5, z=0.0, v=0.0, step=1, learning_rate=0.1)
    >>> print(new.variable.numpy().round(4), new.z.numpy().round(4))
    0.9 0.9
    """
    return ScheduleFreeAdamWResult(**pure_step(SPEC, locals()))


def averaging(
    *,
    step,
    learning_rate,
    warmup_steps,
    weight_lr_power,
    r,
    learning_rate_max,
    weight_sum,
    **_,
) -> dict[str, Scalar]:
    """Computes what a step averages by, given scalars in float64.

    Returns:
        The warmed up learning rate as `rate`, the weight of the new z in the
        average as `share`, and the new `learning_rate_max` and `weight_sum`.
    """
    # Both have these functions.
    is_tensor = any(isinstance(x, tf.Tensor) for x in locals().values())
    math = tf if is_tensor else np
    warmed_up = math.minimum(step / math.maximum(warmup_steps, 1.0), 1.0)
    rate = learning_rate * warmed_up
    rate_max = math.maximum(learning_rate_max, rate)
    # A quotient of 0 would have derivatives that are NaN.
    is_known = learning_rate_max > 0
    ratio = math.where(
        is_known,
        learning_rate_max / math.where(is_known, rate_max, 1.0),
        math.where(rate_max > 0, np.float64(0), 1.0),
    )
    weight = step**r
    before = math.where(
        # Keras stores no sum: all of its steps weigh the same.
        arithmetic.equal(weight_sum, 0),
        (step - 1) * weight,
        weight_sum * ratio**weight_lr_power,
    )
    return {
        "rate": rate,
        "share": weight / (before + weight),
        "learning_rate_max": rate_max,
        "weight_sum": before + weight,
    }


def schedule_free_adamw_update(
    *, step, learning_rate, beta_1, beta_2, epsilon, decay_in_direction, **own
) -> Formula:
    """Binds a step's numbers; the slots are z and v."""
    now = averaging(step=step, learning_rate=learning_rate, **own)

    def formula(s, p, g, z, v, decay):
        # The variable may have been set after z was created.
        z = tf.where(tf.equal(step, 1), p, z)
        if decay is not None and not decay_in_direction:
            kept = arithmetic.kept_part(learning_rate, decay)
            p = tf.cast(kept, p.dtype) * p
        v = s.beta_2 * v + s.one_minus_beta_2 * (g * g)
        d = g / (s.sqrt(v) * s.root_scale + s.epsilon)
        if decay_in_direction:
            d = arithmetic.with_decay(d, p, decay)
        p = p + s.share * (z - p) - s.step_size * d
        return p, z - s.rate * d, v

    return Formula(
        formula,
        {
            **now,
            "step_size": now["rate"] * (1 - beta_1 * (1 - now["share"])),
            "root_scale": 1 / tf.sqrt(1 - tf.pow(beta_2, step)),
        },
        takes_decay=True,
    )


def _shared(name: str, *, is_rate: bool = False) -> rule_spec.Shared:
    return rule_spec.Shared(
        name,
        first=0.0,
        next=arithmetic.of_scalars(lambda **now: averaging(**now)[name]),
        dtype=tf.float64,
        is_rate=is_rate,
        in_keras=False,
    )


SPEC = rule_spec.RuleSpec(
    function=schedule_free_adamw,
    class_name="ScheduleFreeAdamW",
    update=schedule_free_adamw_update,
    average_weight="beta_1",
    slots=[
        # The names are Keras'. A rounding error would never leave z.
        rule_spec.Slot(
            "z", "momentum", "_momentums", exact=True, starts_as_variable=True
        ),
        rule_spec.SECOND_MOMENT,
    ],
    numbers=[
        *rule_spec.ADAM_NUMBERS,
        rule_spec.Number("warmup_steps", rule_spec.NON_NEGATIVE),
        rule_spec.Number("weight_lr_power"),
        rule_spec.Number("r", rule_spec.NON_NEGATIVE),
    ],
    modes=["decay_in_direction"],
    shared=[_shared("learning_rate_max", is_rate=True), _shared("weight_sum")],
)
