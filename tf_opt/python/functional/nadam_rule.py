"""NAdam on pure tensors."""

from __future__ import annotations

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import coasting
from tf_opt.python.functional import rule_spec
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.coasting import MissedStep
from tf_opt.python.functional.update import Update


def momentum(step: Scalar, beta_1: Scalar, momentum_decay: Scalar) -> tf.Tensor:
    """Computes the momentum of a step, a scalar in float64."""
    exponent = arithmetic.float64(step) * arithmetic.float64(momentum_decay)
    decay = tf.pow(arithmetic.float64(0.96), exponent)
    return arithmetic.float64(beta_1) * (1 - 0.5 * decay)


def nadam_update(
    *,
    step: tf.Tensor,
    momentum_product: tf.Tensor,
    learning_rate: tf.Tensor,
    beta_1: tf.Tensor,
    beta_2: tf.Tensor,
    epsilon: tf.Tensor,
    momentum_decay: tf.Tensor,
    **decay: bool,
) -> Update:
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

    def missed(slots: int) -> MissedStep:
        return coasting.along_first_moment(
            moment_size * root_correction,
            epsilon * root_correction,
            beta_1,
            beta_2,
            slots=slots,
        )

    return Update(
        formula,
        {
            "beta_1": beta_1,
            "one_minus_beta_1": 1 - beta_1,
            "beta_2": beta_2,
            "one_minus_beta_2": 1 - beta_2,
            "moment_size": moment_size,
            "gradient_size": learning_rate * (1 - now) / (1 - product),
            "root_scale": 1 / root_correction,
            "epsilon": epsilon,
        },
        learning_rate=learning_rate,
        missed=missed,
        shared=(product,),
        **decay,
    )


SPEC = rule_spec.RuleSpec(
    name="nadam",
    class_name="NAdam",
    update=nadam_update,
    coasts=True,
    coasts_if_less=("beta_1", "beta_2"),
    where=r"With $t$ = `step` and $\psi$ = `momentum_decay`:",
    formula=r"""
        \mu_t &= \beta_1 (1 - \tfrac{1}{2} 0.96^{t \psi}) \\
        P &\leftarrow P \mu_t \\
        m &\leftarrow \beta_1 m + (1 - \beta_1) g \\
        v &\leftarrow \beta_2 v + (1 - \beta_2) g^2 \\
        p &\leftarrow p - \eta \, \frac{\mu_{t+1} m / (1 - P \mu_{t+1})
            + (1 - \mu_t) g / (1 - P)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}
    """,
    slots=[rule_spec.FIRST_MOMENT, rule_spec.SECOND_MOMENT],
    numbers=[
        rule_spec.STEP,
        rule_spec.learning_rate(2e-3),
        rule_spec.BETA_1,
        rule_spec.BETA_2,
        rule_spec.EPSILON,
        rule_spec.Number(
            "momentum_decay",
            4e-3,
            rule_spec.NON_NEGATIVE,
            "Rate at which the momentum grows from half of `beta_1` to "
            "`beta_1`, >= 0: 0.004 in PyTorch and Paddle, 1 in Keras.",
        ),
    ],
    shared=[
        rule_spec.Shared(
            "momentum_product",
            1.0,
            "$P$ after the previous step, a scalar; 1 at first.",
            "Product of the momenta of all previous steps; 1 in the first "
            "step. The caller stores it, because all launches of a step share "
            "it.",
            "Product of the momenta so far, a float64 scalar.",
        )
    ],
    example=[
        "step=1, learning_rate=0.1",
        "step=1, momentum_product=1.0, learning_rate=0.1",
    ],
    example_result="[0.8944000005722046, 2.105600118637085]",
    references="""\
- [Dozat, 2016](https://openreview.net/forum?id=OM0jvwB8jIp57ZJjtNEZ);
  the schedule is PyTorch's and Paddle's.""",
)
