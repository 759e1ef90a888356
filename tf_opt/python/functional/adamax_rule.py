"""Adamax, on pure tensors."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic, rule_spec
from tf_opt.python.functional.arithmetic import Scalar, TensorLike
from tf_opt.python.functional.coasting import MissedStep
from tf_opt.python.functional.pure_step import pure_step
from tf_opt.python.functional.update import Formula


class AdamaxResult(NamedTuple):
    """Result of `adamax`: the new variable, first moment and infinity norm."""

    variable: tf.Tensor
    m: tf.Tensor
    u: tf.Tensor


def adamax(
    variable: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    u: TensorLike,
    *,
    step: Scalar,
    learning_rate: Scalar = 1e-3,
    beta_1: Scalar = 0.9,
    beta_2: Scalar = 0.999,
    epsilon: Scalar = 1e-7,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
    torch_epsilon: bool = False,
) -> AdamaxResult:
    r"""Computes one step of Adamax on one tensor.

    Args:
        m: First moment.
        u: Infinity norm.

    Example:

    >>> from tf_opt import functional as f
    >>> new = f.adamax(1.0, 0.5, m=0.0, u=0.0, step=1, learning_rate=0.1)
    >>> print(new.variable.numpy().round(4))
    0.9
    """
    return AdamaxResult(**pure_step(SPEC, locals()))


def adamax_update(
    *, step, learning_rate, beta_1, beta_2, epsilon, torch_epsilon
) -> Formula:
    """Binds a step's numbers; the slots are m and u."""
    zero = arithmetic.float64(0.0)
    step_size = learning_rate / (1 - tf.pow(beta_1, step))
    outside = zero if torch_epsilon else epsilon

    def formula(s, p, g, m, u):
        m = s.beta_1 * m + s.one_minus_beta_1 * g
        u, size = s.beta_2 * u, tf.abs(g) + s.epsilon_inside
        # tf.maximum would lose a NaN under XLA.
        u = tf.where(u > size, u, size)
        return p - s.step_size * (m / (u + s.epsilon_outside)), m, u

    def direction(epsilon, m, u):
        # PyTorch's norm is 0 before the first gradient.
        return tf.where(tf.equal(m, 0), tf.zeros_like(m), m / (u + epsilon))

    def missed(_) -> MissedStep:
        return MissedStep(
            [beta_1, beta_2],
            step_size,
            direction,
            ratio=beta_1 / beta_2,
            epsilon=outside,
            epsilon_growth=1 / beta_2,
        )

    return Formula(
        formula,
        {
            "step_size": step_size,
            "epsilon_inside": epsilon if torch_epsilon else zero,
            "epsilon_outside": outside,
        },
        missed=missed,
    )


SPEC = rule_spec.RuleSpec(
    function=adamax,
    class_name="Adamax",
    update=adamax_update,
    coasts=True,
    coasts_if_less=("beta_1", "beta_2"),
    slots=[
        rule_spec.Slot("m", "momentum", "_m", moves=True),
        rule_spec.Slot("u", "norm", "_u"),
    ],
    numbers=rule_spec.ADAM_NUMBERS,
    modes=["torch_epsilon"],
)
