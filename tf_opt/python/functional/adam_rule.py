"""Adam and AdamW, with and without AMSGrad, on pure tensors."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic, coasting, rule_spec
from tf_opt.python.functional.arithmetic import Scalar, TensorLike
from tf_opt.python.functional.coasting import MissedStep
from tf_opt.python.functional.pure_step import pure_step
from tf_opt.python.functional.update import Formula


class AdamResult(NamedTuple):
    """Result of `adam`: the new variable, moments and maximum, if any."""

    variable: tf.Tensor
    m: tf.Tensor
    v: tf.Tensor
    v_max: tf.Tensor | None = None


def adam(
    variable: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    v: TensorLike,
    v_max: TensorLike | None = None,
    *,
    step: Scalar,
    learning_rate: Scalar = 1e-3,
    beta_1: Scalar = 0.9,
    beta_2: Scalar = 0.999,
    epsilon: Scalar = 1e-8,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
    epsilon_hat: bool = False,
) -> AdamResult:
    r"""Computes one step of Adam or AdamW on one tensor.

    Args:
        m: First moment.
        v: Second moment.
        v_max: Running maximum of `v`; None: without AMSGrad.

    Example:

    >>> from tf_opt import functional as f
    >>> new = f.adam(1.0, 0.5, m=0.0, v=0.0, step=1, learning_rate=0.1)
    >>> print(new.variable.numpy().round(4))
    0.9
    """
    return AdamResult(**pure_step(SPEC, locals()))


def adam_update(
    *, step, learning_rate, beta_1, beta_2, epsilon, epsilon_hat
) -> Formula:
    """Binds a step's numbers; the slots are m, v and, for AMSGrad, v_max."""
    step_size = learning_rate / (1 - tf.pow(beta_1, step))
    root_correction = tf.sqrt(1 - tf.pow(beta_2, step))
    if epsilon_hat:
        step_size = step_size * root_correction
        root_scale = arithmetic.float64(1.0)
    else:
        root_scale = 1 / root_correction

    def formula(s, p, g, m, v, v_max=None):
        m = s.beta_1 * m + s.one_minus_beta_1 * g
        v = s.beta_2 * v + s.one_minus_beta_2 * (g * g)
        second_moment = v
        if v_max is not None:
            # The maximum is over the uncorrected moments, as in PyTorch and
            # Keras. tf.maximum would lose a NaN in v under XLA.
            second_moment = tf.where(v_max > v, v_max, v)
        root = s.sqrt(second_moment) * s.root_scale
        p = p - s.step_size * (m / (root + s.epsilon))
        return (p, m, v) if v_max is None else (p, m, v, second_moment)

    def missed(slots) -> MissedStep:
        return coasting.along_first_moment(
            learning_rate * root_correction / (1 - tf.pow(beta_1, step)),
            epsilon if epsilon_hat else epsilon * root_correction,
            beta_1,
            beta_2,
            amsgrad="v_max" in slots,
        )

    scalars = {"step_size": step_size, "root_scale": root_scale}
    return Formula(formula, scalars, missed=missed)


SPEC = rule_spec.RuleSpec(
    function=adam,
    class_name="Adam",
    op="AdamAmsgrad",
    update=adam_update,
    coasts=True,
    coasts_if_less=("beta_1", "beta_2"),
    slots=[
        rule_spec.FIRST_MOMENT,
        rule_spec.SECOND_MOMENT,
        rule_spec.Slot(
            "v_max",
            "velocity_hat",
            "_velocity_hats",
            needed_by="amsgrad",
            # Random rounding would make the maximum grow too much.
            rounded_to_nearest=True,
        ),
    ],
    numbers=rule_spec.ADAM_NUMBERS,
    modes=["epsilon_hat"],
)
