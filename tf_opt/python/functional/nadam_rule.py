"""NAdam on pure tensors."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import scalars
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.arithmetic import StepScalar
from tf_opt.python.functional.descent import Descent
from tf_opt.python.functional.docstrings import with_common_arguments
from tf_opt.python.functional.moments import Moments
from tf_opt.python.functional.tensors import TensorLike
from tf_opt.python.functional.tensors import to_tensors


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


class NAdamStep(NamedTuple):
    """Scalars that all variables of a step share."""

    descent: Descent
    moments: Moments
    moment_size: StepScalar
    gradient_size: StepScalar
    root_scale: StepScalar
    epsilon: StepScalar
    momentum_product: tf.Tensor


def momentum(step: Scalar, beta_1: Scalar, momentum_decay: Scalar) -> tf.Tensor:
    """Computes the momentum of a step, a scalar in float64."""
    exponent = arithmetic.float64(step) * arithmetic.float64(momentum_decay)
    decay = tf.pow(arithmetic.float64(0.96), exponent)
    return arithmetic.float64(beta_1) * (1 - 0.5 * decay)


def nadam_step(
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
) -> NAdamStep:
    """Computes a step's scalars; the arguments are those of `nadam`."""
    t = arithmetic.float64(step)
    learning_rate = arithmetic.float64(learning_rate)
    beta_1 = arithmetic.float64(beta_1)
    beta_2 = arithmetic.float64(beta_2)
    now = momentum(t, beta_1, momentum_decay)
    next_ = momentum(t + 1, beta_1, momentum_decay)
    product = arithmetic.float64(momentum_product) * now
    return NAdamStep(
        descent=Descent(learning_rate, decoupled_weight_decay, maximize),
        moments=Moments(beta_1, beta_2),
        moment_size=StepScalar(learning_rate * next_ / (1 - product * next_)),
        gradient_size=StepScalar(learning_rate * (1 - now) / (1 - product)),
        root_scale=StepScalar(1 / tf.sqrt(1 - tf.pow(beta_2, t))),
        epsilon=StepScalar(arithmetic.float64(epsilon)),
        momentum_product=product,
    )


def apply_nadam_step(
    step: NAdamStep,
    variable: tf.Tensor,
    gradient: tf.Tensor,
    slots: Sequence[tf.Tensor],
    weight_decay: Scalar,
    sqrt: Callable[[tf.Tensor], tf.Tensor] = tf.sqrt,
) -> NAdamResult:
    """Updates one variable; `slots` are m and v.

    The tensors may have any types; the result has the arithmetic type. It is
    differentiable if `sqrt` is.
    """
    m, v = slots
    slot_dtype = arithmetic.slot_dtype(variable.dtype)
    dtype = slot_dtype.real_dtype

    p = arithmetic.as_real(variable, dtype)
    m = arithmetic.as_real(m, dtype)
    v = arithmetic.as_real(v, dtype)
    g = arithmetic.as_real(gradient, dtype)

    g = step.descent.gradient(g, p, weight_decay)
    m, v = step.moments.update(g, m, v)
    numerator = step.moment_size.to(dtype) * m + (
        step.gradient_size.to(dtype) * g
    )
    root = sqrt(v) * step.root_scale.to(dtype)
    p = step.descent.keep(p, weight_decay) - numerator / (
        root + step.epsilon.to(dtype)
    )
    return NAdamResult(
        variable=arithmetic.from_real(p, slot_dtype),
        m=arithmetic.from_real(m, slot_dtype),
        v=arithmetic.from_real(v, slot_dtype),
        momentum_product=step.momentum_product,
    )


@with_common_arguments
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
    variable, gradient, slots = to_tensors(variable, gradient, m=m, v=v)
    numbers = nadam_step(
        **scalars.numbers_of_step(
            step=step,
            momentum_product=momentum_product,
            learning_rate=learning_rate,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            momentum_decay=momentum_decay,
        ),
        **scalars.booleans(
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
        ),
    )
    result = apply_nadam_step(
        numbers,
        variable,
        gradient,
        slots.values(),
        scalars.real("weight_decay", weight_decay),
        arithmetic.differentiable_sqrt,
    )
    return arithmetic.as_given(result, variable=variable, **slots)
