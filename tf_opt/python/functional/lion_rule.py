"""Lion on pure tensors."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import rule_spec
from tf_opt.python.functional.arithmetic import Scalar, TensorLike
from tf_opt.python.functional.coasting import MissedStep
from tf_opt.python.functional.pure_step import pure_step
from tf_opt.python.functional.update import Formula


class LionResult(NamedTuple):
    """Result of `lion`: the new variable and moment."""

    variable: tf.Tensor
    m: tf.Tensor


def lion(
    variable: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    *,
    learning_rate: Scalar = 1e-3,
    beta_1: Scalar = 0.9,
    beta_2: Scalar = 0.99,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> LionResult:
    r"""Computes one step of Lion on one tensor.

    Args:
        m: First moment.

    Example:

    >>> from tf_opt import functional as f
    >>> new = f.lion([1.0, 2.0], [0.5, -0.5], m=[0.0, 0.0], learning_rate=0.25)
    >>> print(new.variable.numpy())
    [0.75 2.25]
    """
    return LionResult(**pure_step(SPEC, locals()))


def lion_update(*, learning_rate, beta_1, beta_2) -> Formula:
    """Binds a step's numbers; the only slot is m."""

    def formula(s, p, g, m):
        direction = tf.sign(s.beta_1 * m + s.one_minus_beta_1 * g)
        p = p - s.learning_rate * direction
        return p, s.beta_2 * m + s.one_minus_beta_2 * g

    def missed(_) -> MissedStep:
        # Without a gradient beta_1 decides only whether there is a direction.
        size = tf.where(tf.equal(beta_1, 0), 0 * learning_rate, learning_rate)
        return MissedStep([beta_2], size, lambda epsilon, m: tf.sign(m))

    return Formula(formula, missed=missed)


SPEC = rule_spec.RuleSpec(
    function=lion,
    class_name="Lion",
    update=lion_update,
    coasts=True,
    slots=[rule_spec.FIRST_MOMENT],
    numbers=[
        rule_spec.LEARNING_RATE,
        rule_spec.Number("beta_1", rule_spec.FRACTION),
        rule_spec.Number("beta_2", rule_spec.FRACTION),
    ],
)
