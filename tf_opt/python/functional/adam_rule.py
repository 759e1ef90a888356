"""Adam and AdamW, with and without AMSGrad, on pure tensors."""

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
    v_max: tf.Tensor | None = None


def adam_update(
    *,
    step: Scalar,
    learning_rate: Scalar,
    beta_1: Scalar,
    beta_2: Scalar,
    epsilon: Scalar,
    decoupled_weight_decay: bool,
    maximize: bool,
    epsilon_hat: bool,
    sqrt: Callable[[tf.Tensor], tf.Tensor] = tf.sqrt,
) -> Update:
    """Binds a step's scalars; the slots are m, v and, for AMSGrad, v_max.

    The arguments are those of `adam`. The update is differentiable if `sqrt`
    is.
    """
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

    def formula(s, p, g, m, v, v_max=None):
        m = s.beta_1 * m + s.one_minus_beta_1 * g
        v = s.beta_2 * v + s.one_minus_beta_2 * (g * g)
        second_moment = v
        if v_max is not None:
            # The maximum is over the uncorrected moments, as in PyTorch and
            # Keras. tf.maximum would lose a NaN in v under XLA.
            second_moment = tf.where(v_max > v, v_max, v)
        root = sqrt(second_moment) * s.root_scale
        p = p - s.step_size * (m / (root + s.epsilon))
        return (p, m, v) if v_max is None else (p, m, v, second_moment)

    return Update(
        formula,
        {
            "beta_1": beta_1,
            "one_minus_beta_1": 1 - beta_1,
            "beta_2": beta_2,
            "one_minus_beta_2": 1 - beta_2,
            "step_size": step_size,
            "root_scale": root_scale,
            "epsilon": arithmetic.float64(epsilon),
        },
        learning_rate=learning_rate,
        decoupled_weight_decay=decoupled_weight_decay,
        maximize=maximize,
    )


@docstrings.for_rule
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
    arguments = locals()
    rule = functools.partial(adam_update, sqrt=arithmetic.differentiable_sqrt)
    slots = ["m", "v"] if v_max is None else ["m", "v", "v_max"]
    return AdamResult(*pure_step(rule, arguments, slots))
