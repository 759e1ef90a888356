"""AveragedSGD, Polyak's and Ruppert's averaging, on pure tensors."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic, rule_spec
from tf_opt.python.functional.arithmetic import Scalar, TensorLike
from tf_opt.python.functional.pure_step import pure_step
from tf_opt.python.functional.update import Formula


class AveragedSGDResult(NamedTuple):
    """Result of `averaged_sgd`: the new variable, average and step size."""

    variable: tf.Tensor
    ax: tf.Tensor
    eta: tf.Tensor


def averaged_sgd(
    variable: TensorLike,
    gradient: TensorLike,
    ax: TensorLike,
    eta: Scalar | None = None,
    *,
    step: Scalar,
    learning_rate: Scalar = 1e-2,
    lambd: Scalar = 1e-4,
    alpha: Scalar = 0.75,
    t0: Scalar = 1e6,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> AveragedSGDResult:
    r"""Computes one step of AveragedSGD on one tensor.

    Args:
        ax: The variable's average.
        eta: Step size $\eta$ that the previous step returned, a float64 scalar.
            None in the first step, which uses the learning rate.
        learning_rate: $\gamma$, a scalar, from which `eta` is computed.

    Example:

    >>> from tf_opt import functional as f
    >>> new = f.averaged_sgd(1.0, 0.5, ax=0.0, step=1, learning_rate=0.5)
    >>> print(new.variable.numpy().round(3))
    0.75
    """
    return AveragedSGDResult(**pure_step(SPEC, locals()))


@arithmetic.of_scalars
def next_eta(*, step, learning_rate, lambd, alpha, **_) -> Scalar:
    """Computes the step size of the next step."""
    return learning_rate / (1 + lambd * learning_rate * step) ** alpha


def averaged_sgd_update(
    *, step, eta, learning_rate, lambd, alpha, t0
) -> Formula:
    """Binds a step's numbers; the only slot is ax."""
    eta = learning_rate if eta is None else eta
    mu = 1 / tf.maximum(step - 1 - t0, 1)
    copies = tf.equal(mu, 1)

    own = arithmetic.kept_part(eta, lambd)

    def formula(s, p, g, ax, decay):
        kept = own
        if decay is not None:
            kept = arithmetic.kept_part(learning_rate, decay) * own
        p = tf.cast(kept, p.dtype) * p - s.eta * g
        # ax + 1 * (p - ax) would differ from p by a rounding error.
        return p, tf.where(copies, p, ax + s.mu * (p - ax))

    return Formula(formula, {"eta": eta, "mu": mu}, takes_decay=True)


SPEC = rule_spec.RuleSpec(
    function=averaged_sgd,
    class_name="AveragedSGD",
    update=averaged_sgd_update,
    slots=[rule_spec.Slot("ax", starts_as_variable=True)],
    numbers=[
        rule_spec.STEP,
        rule_spec.LEARNING_RATE,
        rule_spec.Number("lambd", rule_spec.NON_NEGATIVE),
        rule_spec.Number("alpha", rule_spec.NON_NEGATIVE, in_op=False),
        rule_spec.Number("t0", rule_spec.NON_NEGATIVE, may_be_infinite=True),
    ],
    shared=[
        rule_spec.Shared(
            "eta",
            first=None,
            next=next_eta,
            # As the scalars that it is computed from.
            dtype=tf.float64,
            is_rate=True,
        )
    ],
)
