"""FTRL-Proximal, on pure tensors."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic, rule_spec
from tf_opt.python.functional.arithmetic import Scalar, TensorLike
from tf_opt.python.functional.pure_step import pure_step
from tf_opt.python.functional.update import Formula


class FtrlResult(NamedTuple):
    """Result of `ftrl`: the new variable and sums."""

    variable: tf.Tensor
    accumulator: tf.Tensor
    linear: tf.Tensor


def ftrl(
    variable: TensorLike,
    gradient: TensorLike,
    accumulator: TensorLike,
    linear: TensorLike,
    *,
    learning_rate: Scalar = 1e-3,
    learning_rate_power: Scalar = -0.5,
    l1_regularization_strength: Scalar = 0.0,
    l2_regularization_strength: Scalar = 0.0,
    l2_shrinkage_regularization_strength: Scalar = 0.0,
    beta: Scalar = 0.0,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> FtrlResult:
    r"""Computes one step of FTRL-Proximal on one tensor.

    Args:
        accumulator: Sum $n$ of the squared gradients, at first any number >= 0,
            such as 0.1 everywhere.
        linear: Sum $z$ of the gradients, less what keeps the variable near.

    Example:

    >>> from tf_opt import functional as f
    >>> new = f.ftrl(
    ...     [0.0, 0.0], [3.0, 1.0], [7.0, 0.0], [0.0, 0.0], learning_rate=0.5,
    ...     l1_regularization_strength=1.0)
    >>> print(new.variable.numpy())
    [-0.25  0.  ]
    """
    return FtrlResult(**pure_step(SPEC, locals()))


def ftrl_update(
    *,
    learning_rate,
    learning_rate_power,
    l1_regularization_strength,
    l2_regularization_strength,
    l2_shrinkage_regularization_strength,
    beta,
) -> Formula:
    """Binds a step's numbers; the slots are n and z."""
    zero, one = arithmetic.float64(0.0), arithmetic.float64(1.0)
    moves = tf.not_equal(learning_rate, 0)
    inverse_rate = tf.math.reciprocal_no_nan(learning_rate)
    strength = beta * inverse_rate + 2 * l2_regularization_strength
    is_root = tf.equal(learning_rate_power, -0.5)

    def formula(s, p, g, accumulator, linear):
        def power(n):
            # The root as the op computes it; a power's derivative may be
            # infinite where it isn't used, too.
            other = tf.pow(tf.where(is_root, tf.ones_like(n), n), s.exponent)
            return tf.where(is_root, s.sqrt(n), other)

        g = s.inflow * g
        before = power(accumulator)
        accumulator = accumulator + g * g
        after = power(accumulator)
        linear = linear + (
            g + s.shrinkage * p - (after - before) * s.inverse_rate * p
        )
        # tf.minimum would lose a NaN under XLA.
        clipped = tf.where(s.l1 < linear, s.l1, linear)
        leader = tf.where(-s.l1 > clipped, -s.l1, clipped) - linear
        divisor = after * s.inverse_rate + s.strength
        # Zero over zero is zero.
        divisor = tf.where(tf.equal(leader, 0), tf.ones_like(p), divisor)
        return tf.where(moves, leader, p) / divisor, accumulator, linear

    return Formula(
        formula,
        {
            "exponent": -learning_rate_power,
            "inflow": tf.where(moves, one, zero),
            "inverse_rate": inverse_rate,
            "l1": l1_regularization_strength,
            "strength": tf.where(moves, strength, one),
            "shrinkage": tf.where(
                moves, 2 * l2_shrinkage_regularization_strength, zero
            ),
        },
    )


SPEC = rule_spec.RuleSpec(
    function=ftrl,
    class_name="Ftrl",
    update=ftrl_update,
    slots=[
        rule_spec.Slot(
            "accumulator",
            keras_list="_accumulators",
            first="initial_accumulator_value",
        ),
        rule_spec.Slot("linear", keras_list="_linears"),
    ],
    numbers=[
        rule_spec.LEARNING_RATE,
        rule_spec.Number(
            "learning_rate_power", rule_spec.NON_POSITIVE, in_op=False
        ),
        rule_spec.INITIAL_ACCUMULATOR_VALUE,
        rule_spec.Number("l1_regularization_strength", rule_spec.NON_NEGATIVE),
        rule_spec.Number("l2_regularization_strength", rule_spec.NON_NEGATIVE),
        rule_spec.Number(
            "l2_shrinkage_regularization_strength", rule_spec.NON_NEGATIVE
        ),
        rule_spec.Number("beta", rule_spec.NON_NEGATIVE),
    ],
)
