"""Lamb on pure tensors."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic, rule_spec
from tf_opt.python.functional.arithmetic import Scalar, TensorLike
from tf_opt.python.functional.pure_step import pure_step
from tf_opt.python.functional.update import Formula


class LambResult(NamedTuple):
    """Result of `lamb`: the new variable and moments."""

    variable: tf.Tensor
    m: tf.Tensor
    v: tf.Tensor


def lamb(
    variable: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    v: TensorLike,
    *,
    step: Scalar,
    learning_rate: Scalar = 1e-3,
    beta_1: Scalar = 0.9,
    beta_2: Scalar = 0.999,
    epsilon: Scalar = 1e-7,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
    decay_in_direction: bool = True,
) -> LambResult:
    r"""Computes one step of Lamb on one tensor.

    Args:
        m: First moment.
        v: Second moment.

    Example:

    >>> from tf_opt import functional as f
    >>> new = f.lamb([3.0, 4.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0], step=1)
    >>> print(new.variable.numpy().round(4))
    [2.9965 3.9965]
    """
    return LambResult(**pure_step(SPEC, locals()))


def lamb_update(
    *, step, beta_1, beta_2, epsilon, decay_in_direction, **_
) -> Formula:
    """Binds a step's numbers; the slots are m and v."""

    def formula(s, p, g, m, v, decay=None):
        m = s.beta_1 * m + s.one_minus_beta_1 * g
        v = s.beta_2 * v + s.one_minus_beta_2 * (g * g)
        u = s.scale * m / (s.sqrt(v) + s.scaled_epsilon)
        u = arithmetic.with_decay(u, p, decay)
        squares = map(arithmetic.sum_of_squares, (p, u))
        p_norm, u_norm = map(s.sqrt, squares)
        # In a product the branch that isn't selected would be NaN.
        trust = (p_norm > 0) & (u_norm > 0)
        ratio = tf.where(trust, p_norm, 1) / tf.where(trust, u_norm, 1)
        return p - s.learning_rate * ratio * u, m, v

    root_correction = tf.sqrt(1 - tf.pow(beta_2, step))
    return Formula(
        formula,
        {
            "scale": root_correction / (1 - tf.pow(beta_1, step)),
            "scaled_epsilon": epsilon * root_correction,
        },
        takes_decay=decay_in_direction,
    )


SPEC = rule_spec.RuleSpec(
    function=lamb,
    class_name="Lamb",
    op=None,
    update=lamb_update,
    slots=[rule_spec.FIRST_MOMENT, rule_spec.SECOND_MOMENT],
    numbers=rule_spec.ADAM_NUMBERS,
    modes=["decay_in_direction"],
)
