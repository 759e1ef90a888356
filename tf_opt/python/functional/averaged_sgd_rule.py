"""AveragedSGD, Polyak's and Ruppert's averaging, on pure tensors."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_opt.python import docstrings
from tf_opt.python.functional import arithmetic
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.tensors import TensorLike
from tf_opt.python.functional.update import Update
from tf_opt.python.functional.update import pure_step


class AveragedSGDResult(NamedTuple):
    """Result of a step: the new variable and its new state.

    Attributes:
        variable: The updated variable.
        ax: The variable's average.
        eta: Step size of the next step, a float64 scalar.
    """

    variable: tf.Tensor
    ax: tf.Tensor
    eta: tf.Tensor


def next_eta(
    step: Scalar, learning_rate: Scalar, lambd: Scalar, alpha: Scalar
) -> tf.Tensor:
    """Computes the step size of the next step, a scalar in float64."""
    learning_rate = arithmetic.float64(learning_rate)
    decay = arithmetic.float64(lambd) * learning_rate * arithmetic.float64(step)
    return learning_rate / tf.pow(1 + decay, arithmetic.float64(alpha))


def averaged_sgd_update(
    *,
    step: Scalar,
    eta: Scalar,
    learning_rate: Scalar,
    lambd: Scalar,
    alpha: Scalar,
    t0: Scalar,
    decoupled_weight_decay: bool,
    maximize: bool,
) -> Update:
    """Binds a step's scalars; the only slot is ax.

    The arguments are those of `averaged_sgd`.
    """
    t = arithmetic.float64(step)
    eta = arithmetic.float64(eta)
    learning_rate = arithmetic.float64(learning_rate)
    lambd = arithmetic.float64(lambd)
    mu = 1 / tf.maximum(t - 1 - arithmetic.float64(t0), 1)
    copies = mu == 1

    def formula(s, p, g, ax):
        p = p - s.eta * g
        # ax + 1 * (p - ax) would differ from p by a rounding error.
        return p, tf.where(copies, p, ax + s.mu * (p - ax))

    return Update(
        formula,
        {
            "eta": eta,
            "mu": mu,
        },
        learning_rate=learning_rate,
        decoupled_weight_decay=decoupled_weight_decay,
        maximize=maximize,
        kept=1 - lambd * eta,
        shared=(next_eta(t, learning_rate, lambd, alpha),),
    )


@docstrings.for_rule
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
    r"""Computes one step of averaged SGD on one tensor.

    With $t$ = `step`, $\eta$ = `eta` and $\gamma$ = `learning_rate`:

    $$
    \begin{aligned}
    g &\leftarrow -g && \text{if maximize} \\
    p &\leftarrow p - \gamma w p && \text{decoupled weight decay, or} \\
    g &\leftarrow g + w p && \text{L2 decay} \\
    p &\leftarrow p (1 - \lambda \eta) - \eta g \\
    \mu &= 1 / \max(1, t - 1 - t_0) \\
    ax &\leftarrow p && \text{while } \mu = 1 \text{, else} \\
    ax &\leftarrow ax + \mu (p - ax) \\
    \eta &\leftarrow \gamma / (1 + \lambda \gamma t)^\alpha
    \end{aligned}
    $$

    {{use}}

    Args:
        {{variable}}
        {{gradient}}
        ax: The variable's average, of the same shape: float32 for a float16,
            bfloat16 or float32 variable, the variable's type for others. It may
            also have a narrower type.
        eta: Step size that the previous step returned, a scalar. None in the
            first step, which uses the learning rate.
        {{step}}
        learning_rate: Initial step size, a scalar; `eta` is computed from it.
        lambd: Strength of the decay of variable and step size, >= 0.
        alpha: Power of the step size's decay.
        t0: Number of steps before averaging begins.
        {{direction}}

    Returns:
        An `AveragedSGDResult`: the new `variable`, `ax` and `eta`.

    Raises:
        {{raises}}

    Example:

    >>> import tensorflow as tf, tf_opt
    >>> p, ax, eta = tf.constant(1.0), tf.constant(0.0), None
    >>> for step in range(1, 5):
    ...     p, ax, eta = tf_opt.functional.averaged_sgd(
    ...         p, tf.constant(1.0), ax, eta, step=step, learning_rate=0.25,
    ...         lambd=0.0, t0=1)
    >>> float(p), float(ax)  # The average of the last two: 0.25 and 0.
    (0.0, 0.125)

    References:
        - Polyak and Juditsky, 1992, "Acceleration of Stochastic Approximation
          by Averaging"; step size and lag are PyTorch's
          ([`torch.optim.ASGD`](https://docs.pytorch.org/docs/stable/generated/torch.optim.ASGD.html)).
    """
    if eta is None:
        eta = learning_rate
    return AveragedSGDResult(*pure_step(averaged_sgd_update, locals(), ["ax"]))
