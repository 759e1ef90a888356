"""NAdam on pure tensors."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic, coasting, rule_spec
from tf_opt.python.functional.arithmetic import Scalar, TensorLike
from tf_opt.python.functional.coasting import MissedStep
from tf_opt.python.functional.pure_step import pure_step
from tf_opt.python.functional.update import Formula


class NAdamResult(NamedTuple):
    """Result of `nadam`: the new variable, moments and product of momenta."""

    variable: tf.Tensor
    m: tf.Tensor
    v: tf.Tensor
    momentum_product: tf.Tensor


def nadam(
    variable: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    v: TensorLike,
    momentum_product: Scalar = 1.0,
    *,
    step: Scalar,
    learning_rate: Scalar = 2e-3,
    beta_1: Scalar = 0.9,
    beta_2: Scalar = 0.999,
    epsilon: Scalar = 1e-8,
    momentum_decay: Scalar = 4e-3,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> NAdamResult:
    r"""Computes one step of NAdam on one tensor.

    Args:
        m: First moment.
        v: Second moment.
        momentum_product: $P$ after the previous step, a scalar; 1 at first. The
            new one is float64.

    Example:

    >>> from tf_opt import functional as f
    >>> new = f.nadam(1.0, 0.5, m=0.0, v=0.0, step=1, learning_rate=0.1)
    >>> print(new.variable.numpy().round(4))
    0.8944
    """
    return NAdamResult(**pure_step(SPEC, locals()))


def momentum(step: Scalar, beta_1: Scalar, momentum_decay: Scalar) -> Scalar:
    """Computes the momentum of a step, given scalars in float64."""
    return beta_1 * (1 - 0.5 * 0.96 ** (step * momentum_decay))


@arithmetic.of_scalars
def next_product(
    *, step, momentum_product, beta_1, momentum_decay, **_
) -> Scalar:
    """Multiplies the product by a step's momentum."""
    return momentum_product * momentum(step, beta_1, momentum_decay)


def nadam_update(
    *,
    step,
    momentum_product,
    learning_rate,
    beta_1,
    beta_2,
    epsilon,
    momentum_decay,
) -> Formula:
    """Binds a step's numbers; the slots are m and v."""
    now = momentum(step, beta_1, momentum_decay)
    next_ = momentum(step + 1, beta_1, momentum_decay)
    product = momentum_product * now

    def formula(s, p, g, m, v):
        m = s.beta_1 * m + s.one_minus_beta_1 * g
        v = s.beta_2 * v + s.one_minus_beta_2 * (g * g)
        root = s.sqrt(v) * s.root_scale
        numerator = s.moment_size * m + s.gradient_size * g
        return p - numerator / (root + s.epsilon), m, v

    root_correction = tf.sqrt(1 - tf.pow(beta_2, step))
    moment_size = learning_rate * next_ / (1 - product * next_)

    def missed(_) -> MissedStep:
        return coasting.along_first_moment(
            moment_size * root_correction,
            epsilon * root_correction,
            beta_1,
            beta_2,
        )

    return Formula(
        formula,
        {
            "moment_size": moment_size,
            "gradient_size": learning_rate * (1 - now) / (1 - product),
            "root_scale": 1 / root_correction,
        },
        missed=missed,
    )


SPEC = rule_spec.RuleSpec(
    function=nadam,
    class_name="NAdam",
    update=nadam_update,
    coasts=True,
    coasts_if_less=("beta_1", "beta_2"),
    slots=[rule_spec.FIRST_MOMENT, rule_spec.SECOND_MOMENT],
    numbers=[
        *rule_spec.ADAM_NUMBERS,
        rule_spec.Number("momentum_decay", rule_spec.NON_NEGATIVE),
    ],
    shared=[
        # The names are Keras', so that checkpoints are interchangeable.
        rule_spec.Shared("momentum_product", first=1.0, next=next_product)
    ],
)
