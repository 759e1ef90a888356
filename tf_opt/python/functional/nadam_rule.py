"""NAdam on pure tensors."""

from __future__ import annotations

from typing import Any
from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import coasting
from tf_opt.python.functional import rule_spec
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.checks import TensorLike
from tf_opt.python.functional.coasting import MissedStep
from tf_opt.python.functional.pure_step import pure_step
from tf_opt.python.functional.update import Formula


class NAdamResult(NamedTuple):
    """Result of a step: the new variable and its new state.

    Attributes:
        variable: The updated variable.
        m: First moment.
        v: Second moment.
        momentum_product: Product of the momenta so far, a float64 scalar.
    """

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

    {{formula}}

    Args:
        {{variable and gradient}}
        m: First moment, of the variable's shape: float32 for a float16,
            bfloat16 or float32 variable, the variable's type for others.
            bfloat16, or float32 for float64, will do, too. Zeros at first.
        v: Second moment, like `m`.
        momentum_product: $P$ after the previous step, a scalar; 1 at first.
        step: Number $t$ of this step, an integer counted from 1.
        learning_rate: Step size $\eta$, a scalar.
        beta_1: Decay of the first moment, in [0, 1).
        beta_2: Decay of the second moment, in [0, 1).
        epsilon: Added to the denominator, >= 0.
        momentum_decay: Rate at which the momentum grows from half of `beta_1`
            to `beta_1`, >= 0: 0.004 in PyTorch and Paddle, 1 in Keras.
        {{weight decay}}

    Returns:
        An `NAdamResult`, with the types of the arguments.

    {{raises}}

    Example:

    >>> import tensorflow as tf, tf_opt
    >>> p, zero = tf.constant([1.0, 2.0]), tf.zeros(2)
    >>> new = tf_opt.functional.nadam(
    ...     p, tf.constant([0.5, -0.5]), zero, zero, step=1, learning_rate=0.1)
    >>> print(new.variable.numpy().round(4))
    [0.8944 2.1056]
    """
    return NAdamResult(**pure_step(SPEC, locals()))


def momentum(step: Scalar, beta_1: Scalar, momentum_decay: Scalar) -> Scalar:
    """Computes the momentum of a step, given scalars in float64."""
    return beta_1 * (1 - 0.5 * 0.96 ** (step * momentum_decay))


@arithmetic.of_scalars
def next_product(
    *,
    step: Scalar,
    momentum_product: Scalar,
    beta_1: Scalar,
    momentum_decay: Scalar,
    **_: Any,
) -> Scalar:
    """Multiplies the product by a step's momentum."""
    return momentum_product * momentum(step, beta_1, momentum_decay)


def nadam_update(
    *,
    step: tf.Tensor,
    momentum_product: tf.Tensor,
    learning_rate: tf.Tensor,
    beta_1: tf.Tensor,
    beta_2: tf.Tensor,
    epsilon: tf.Tensor,
    momentum_decay: tf.Tensor,
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
            "one_minus_beta_1": 1 - beta_1,
            "one_minus_beta_2": 1 - beta_2,
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
        rule_spec.STEP,
        rule_spec.LEARNING_RATE,
        rule_spec.BETA_1,
        rule_spec.BETA_2,
        rule_spec.EPSILON,
        rule_spec.Number("momentum_decay", rule_spec.NON_NEGATIVE),
    ],
    shared=[
        # The names are Keras', so that checkpoints are interchangeable.
        rule_spec.Shared(
            "momentum_product",
            first=1.0,
            next=next_product,
            attribute="_u_product",
        )
    ],
)
