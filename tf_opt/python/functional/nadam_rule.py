"""NAdam on pure tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tf_opt.python import docstrings
from tf_opt.python.functional import arithmetic
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.tensors import TensorLike
from tf_opt.python.functional.update import Update
from tf_opt.python.functional.update import pure_step


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


def momentum(step: Scalar, beta_1: Scalar, momentum_decay: Scalar) -> tf.Tensor:
    """Computes the momentum of a step, a scalar in float64."""
    exponent = arithmetic.float64(step) * arithmetic.float64(momentum_decay)
    decay = tf.pow(arithmetic.float64(0.96), exponent)
    return arithmetic.float64(beta_1) * (1 - 0.5 * decay)


def nadam_update(
    *,
    step: Scalar,
    momentum_product: Scalar,
    learning_rate: Scalar,
    beta_1: Scalar,
    beta_2: Scalar,
    epsilon: Scalar,
    momentum_decay: Scalar,
    decoupled_weight_decay: bool,
    maximize: bool,
    sqrt: Callable[[tf.Tensor], tf.Tensor] = tf.sqrt,
) -> Update:
    """Binds a step's scalars; the slots are m and v.

    The arguments are those of `nadam`. The update is differentiable if `sqrt`
    is.
    """
    t = arithmetic.float64(step)
    learning_rate = arithmetic.float64(learning_rate)
    beta_1 = arithmetic.float64(beta_1)
    beta_2 = arithmetic.float64(beta_2)
    now = momentum(t, beta_1, momentum_decay)
    next_ = momentum(t + 1, beta_1, momentum_decay)
    product = arithmetic.float64(momentum_product) * now

    def formula(s, p, g, m, v):
        m = s.beta_1 * m + s.one_minus_beta_1 * g
        v = s.beta_2 * v + s.one_minus_beta_2 * (g * g)
        root = sqrt(v) * s.root_scale
        numerator = s.moment_size * m + s.gradient_size * g
        return p - numerator / (root + s.epsilon), m, v

    return Update(
        formula,
        {
            "beta_1": beta_1,
            "one_minus_beta_1": 1 - beta_1,
            "beta_2": beta_2,
            "one_minus_beta_2": 1 - beta_2,
            "moment_size": learning_rate * next_ / (1 - product * next_),
            "gradient_size": learning_rate * (1 - now) / (1 - product),
            "root_scale": 1 / tf.sqrt(1 - tf.pow(beta_2, t)),
            "epsilon": arithmetic.float64(epsilon),
        },
        learning_rate=learning_rate,
        decoupled_weight_decay=decoupled_weight_decay,
        maximize=maximize,
        shared=(product,),
    )


@docstrings.for_rule
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

    With $t$ = `step` and $\psi$ = `momentum_decay`:

    $$
    \begin{aligned}
    g &\leftarrow -g && \text{if maximize} \\
    p &\leftarrow p - \eta \lambda p && \text{decoupled decay, or} \\
    g &\leftarrow g + \lambda p && \text{L2 decay} \\
    \mu_t &= \beta_1 (1 - \tfrac{1}{2} 0.96^{t \psi}) \\
    P &\leftarrow P \mu_t \\
    m &\leftarrow \beta_1 m + (1 - \beta_1) g \\
    v &\leftarrow \beta_2 v + (1 - \beta_2) g^2 \\
    p &\leftarrow p - \eta \, \frac{\mu_{t+1} m / (1 - P \mu_{t+1})
        + (1 - \mu_t) g / (1 - P)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}
    \end{aligned}
    $$

    {{use}}

    Args:
        {{variable}}
        {{gradient}}
        {{moments}}
        momentum_product: $P$ after the previous step, a scalar; 1 at first.
        {{step}}
        learning_rate: Step size, a scalar.
        {{decay_rates}}
        momentum_decay: Rate at which the momentum grows from half of `beta_1`
            to `beta_1`: 0.004 in PyTorch and Paddle, 1 in Keras.
        {{direction}}

    Returns:
        A `NAdamResult`: the new `variable`, `m`, `v` and `momentum_product`.

    Raises:
        {{raises}}

    Example:

    >>> import tensorflow as tf, tf_opt
    >>> p, zero = tf.constant([1.0, 2.0]), tf.zeros(2)
    >>> new = tf_opt.functional.nadam(
    ...     p, tf.constant([0.5, -0.5]), zero, zero, step=1, learning_rate=0.1)
    >>> new.variable.numpy().round(4).tolist()
    [0.8944000005722046, 2.105600118637085]

    References:
        - [Dozat, 2016](https://openreview.net/forum?id=OM0jvwB8jIp57ZJjtNEZ);
          the schedule is PyTorch's and Paddle's.
    """
    arguments = locals()
    rule = functools.partial(nadam_update, sqrt=arithmetic.differentiable_sqrt)
    return NAdamResult(*pure_step(rule, arguments, ["m", "v"]))
