"""Adam and AdamW, with and without AMSGrad, on pure tensors."""

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


class AdamResult(NamedTuple):
    """Result of a step: the new variable and its new state.

    Attributes:
        variable: The updated variable.
        m: First moment.
        v: Second moment.
        v_max: Running maximum of `v`; None without AMSGrad.
    """

    variable: tf.Tensor
    m: tf.Tensor
    v: tf.Tensor
    v_max: tf.Tensor | None


class AdamStep(NamedTuple):
    """Scalars that all variables of a step share."""

    descent: Descent
    moments: Moments
    step_size: StepScalar
    root_scale: StepScalar
    epsilon: StepScalar


def adam_step(
    *,
    step: Scalar,
    learning_rate: Scalar,
    beta_1: Scalar,
    beta_2: Scalar,
    epsilon: Scalar,
    decoupled_weight_decay: bool,
    maximize: bool,
    epsilon_hat: bool,
) -> AdamStep:
    """Computes a step's scalars; the arguments are those of `adam`."""
    t = arithmetic.float64(step)
    learning_rate = arithmetic.float64(learning_rate)
    beta_1 = arithmetic.float64(beta_1)
    beta_2 = arithmetic.float64(beta_2)
    step_size = learning_rate / (1 - tf.pow(beta_1, t))
    root_correction = tf.sqrt(1 - tf.pow(beta_2, t))
    if epsilon_hat:
        step_size = step_size * root_correction
        root_scale = arithmetic.float64(1.0)
    else:
        root_scale = 1 / root_correction
    return AdamStep(
        descent=Descent(learning_rate, decoupled_weight_decay, maximize),
        moments=Moments(beta_1, beta_2),
        step_size=StepScalar(step_size),
        root_scale=StepScalar(root_scale),
        epsilon=StepScalar(arithmetic.float64(epsilon)),
    )


def apply_adam_step(
    step: AdamStep,
    variable: tf.Tensor,
    gradient: tf.Tensor,
    slots: Sequence[tf.Tensor],
    weight_decay: Scalar,
    sqrt: Callable[[tf.Tensor], tf.Tensor] = tf.sqrt,
) -> AdamResult:
    """Updates one variable; `slots` are m, v and, for AMSGrad, v_max.

    The tensors may have any types; the result has the arithmetic type. It is
    differentiable if `sqrt` is.
    """
    m, v, *v_max = slots
    slot_dtype = arithmetic.slot_dtype(variable.dtype)
    dtype = slot_dtype.real_dtype

    p = arithmetic.as_real(variable, dtype)
    g = arithmetic.as_real(gradient, dtype)
    m = arithmetic.as_real(m, dtype)
    v = arithmetic.as_real(v, dtype)

    g = step.descent.gradient(g, p, weight_decay)
    m, v = step.moments.update(g, m, v)
    second_moment = v
    if v_max:
        # The maximum is over the uncorrected moments, as in PyTorch and Keras.
        # tf.maximum would lose a NaN in v under XLA.
        maximum = arithmetic.as_real(v_max[0], dtype)
        second_moment = tf.where(maximum > v, maximum, v)
    root = sqrt(second_moment) * step.root_scale.to(dtype)
    p = step.descent.keep(p, weight_decay) - step.step_size.to(dtype) * (
        m / (root + step.epsilon.to(dtype))
    )

    return AdamResult(
        variable=arithmetic.from_real(p, slot_dtype),
        m=arithmetic.from_real(m, slot_dtype),
        v=arithmetic.from_real(v, slot_dtype),
        v_max=(
            arithmetic.from_real(second_moment, slot_dtype) if v_max else None
        ),
    )


@with_common_arguments
def adam(
    variable: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    v: TensorLike,
    v_max: TensorLike | None = None,
    *,
    step: Scalar,
    learning_rate: Scalar = 1e-3,
    beta_1: Scalar = 0.9,
    beta_2: Scalar = 0.999,
    epsilon: Scalar = 1e-8,
    weight_decay: Scalar = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
    epsilon_hat: bool = False,
) -> AdamResult:
    r"""Computes one step of Adam or AdamW on one tensor.

    With $t$ = `step`:

    $$
    \begin{aligned}
    g &\leftarrow -g && \text{if maximize} \\
    p &\leftarrow p - \eta \lambda p && \text{decoupled decay, or} \\
    g &\leftarrow g + \lambda p && \text{L2 decay} \\
    m &\leftarrow \beta_1 m + (1 - \beta_1) g \\
    v &\leftarrow \beta_2 v + (1 - \beta_2) g^2 \\
    v_{max} &\leftarrow \max(v_{max}, v)
        && \text{AMSGrad; takes the place of } v \text{ below} \\
    p &\leftarrow p - \frac{\eta}{1 - \beta_1^t} \cdot
        \frac{m}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}
    \end{aligned}
    $$

    {{use}}

    Args:
        {{variable}}
        {{gradient}}
        {{moments}}
        v_max: Running maximum of `v`, for AMSGrad; same types as `v`. Or None.
        {{step}}
        learning_rate: Step size, a scalar.
        {{decay_rates}}
        {{direction}}
        epsilon_hat: Whether to add epsilon before the bias correction, as Keras
            does. The step is then $\eta \sqrt{1 - \beta_2^t} /
            (1 - \beta_1^t) \cdot m / (\sqrt{v} + \epsilon)$.

    Returns:
        An `AdamResult`: the new `variable`, `m`, `v` and `v_max`.

    Raises:
        {{raises}}

    Example:

    >>> import tensorflow as tf, tf_opt
    >>> p, zero = tf.constant([1.0, 2.0]), tf.zeros(2)
    >>> new = tf_opt.functional.adam(
    ...     p, tf.constant([0.5, -0.5]), zero, zero, step=1, learning_rate=0.1)
    >>> new.variable.numpy().round(4).tolist()
    [0.8999999761581421, 2.0999999046325684]

    References:
        - [Kingma and Ba, 2015](https://arxiv.org/abs/1412.6980)
        - [Loshchilov and Hutter, 2019](https://arxiv.org/abs/1711.05101)
        - [Reddi et al., 2018](https://arxiv.org/abs/1904.09237)
    """
    slots = {"m": m, "v": v}
    if v_max is not None:
        slots["v_max"] = v_max
    variable, gradient, slots = to_tensors(variable, gradient, **slots)
    numbers = adam_step(
        **scalars.numbers_of_step(
            step=step,
            learning_rate=learning_rate,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
        ),
        **scalars.booleans(
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
            epsilon_hat=epsilon_hat,
        ),
    )
    result = apply_adam_step(
        numbers,
        variable,
        gradient,
        slots.values(),
        scalars.real("weight_decay", weight_decay),
        arithmetic.differentiable_sqrt,
    )
    return arithmetic.as_given(result, variable=variable, **slots)
