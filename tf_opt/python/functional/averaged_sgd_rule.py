"""AveragedSGD, Polyak's and Ruppert's averaging, on pure tensors."""

from __future__ import annotations

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import rule_spec
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.update import Update


def next_eta(
    step: Scalar, learning_rate: Scalar, lambd: Scalar, alpha: Scalar
) -> tf.Tensor:
    """Computes the step size of the next step, a scalar in float64."""
    learning_rate = arithmetic.float64(learning_rate)
    decay = arithmetic.float64(lambd) * learning_rate * arithmetic.float64(step)
    return learning_rate / tf.pow(1 + decay, arithmetic.float64(alpha))


def averaged_sgd_update(
    *,
    step: tf.Tensor,
    eta: tf.Tensor | None,
    learning_rate: tf.Tensor,
    lambd: tf.Tensor,
    alpha: tf.Tensor,
    t0: tf.Tensor,
    **decay: bool,
) -> Update:
    """Binds a step's numbers; the only slot is ax."""
    eta = learning_rate if eta is None else eta
    mu = 1 / tf.maximum(step - 1 - t0, 1)
    copies = mu == 1

    def formula(s, p, g, ax):
        p = p - s.eta * g
        # ax + 1 * (p - ax) would differ from p by a rounding error.
        return p, tf.where(copies, p, ax + s.mu * (p - ax))

    return Update(
        formula,
        {"eta": eta, "mu": mu},
        learning_rate=learning_rate,
        kept=arithmetic.kept_part(eta, lambd),
        shared=(next_eta(step, learning_rate, lambd, alpha),),
        **decay,
    )


SPEC = rule_spec.RuleSpec(
    name="averaged_sgd",
    class_name="AveragedSGD",
    update=averaged_sgd_update,
    where=r"With $t$ = `step`, $\eta$ = `eta`, $\gamma$ = `learning_rate` and "
    "$w$ = `weight_decay`:",
    symbols=(r"\gamma", "w"),
    formula=r"""
        p &\leftarrow p (1 - \lambda \eta) - \eta g \\
        \mu &= 1 / \max(1, t - 1 - t_0) \\
        ax &\leftarrow p && \text{while } \mu = 1 \text{, else} \\
        ax &\leftarrow ax + \mu (p - ax) \\
        \eta &\leftarrow \gamma / (1 + \lambda \gamma t)^\alpha
    """,
    slots=[rule_spec.Slot("ax", "The variable's average", "ax")],
    numbers=[
        rule_spec.STEP,
        rule_spec.learning_rate(
            1e-2, "Initial step size, a scalar; `eta` is computed from it."
        ),
        rule_spec.Number(
            "lambd",
            1e-4,
            rule_spec.NON_NEGATIVE,
            "Strength of the decay of variable and step size, >= 0.",
        ),
        rule_spec.Number(
            "alpha",
            0.75,
            rule_spec.NON_NEGATIVE,
            "Power of the step size's decay, >= 0.",
            in_op=False,
        ),
        rule_spec.Number(
            "t0",
            1e6,
            rule_spec.NON_NEGATIVE,
            "Number of steps before averaging begins, >= 0.",
            may_be_infinite=True,
        ),
    ],
    shared=[
        rule_spec.Shared(
            "eta",
            None,
            "Step size that the previous step returned, a scalar. None in the "
            "first step, which uses the learning rate.",
            "Step size, >= 0.",
            "Step size of the next step, a float64 scalar.",
        )
    ],
    example=[
        "step=1, learning_rate=0.5, lambd=0.0",
        "step=1, eta=0.5, lambd=0.0",
    ],
    example_result="[0.75, 2.25]",
    references="""\
- Polyak and Juditsky, 1992, "Acceleration of Stochastic Approximation by
  Averaging"; step size and lag are PyTorch's
  ([`torch.optim.ASGD`](https://docs.pytorch.org/docs/stable/generated/torch.optim.ASGD.html)).""",
)
