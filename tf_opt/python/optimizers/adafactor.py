"""Adafactor as a Keras optimizer."""

from __future__ import annotations

import keras
from typing_extensions import Unpack

from tf_opt.python.functional import adafactor_rule
from tf_opt.python.keras_internals import LearningRate, Number
from tf_opt.python.optimizers.base.arguments import CommonArguments
from tf_opt.python.optimizers.base.definition import optimizer
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer


@optimizer(adafactor_rule.SPEC, keras.optimizers.Adafactor, relative_step=True)
class Adafactor(FusedOptimizer):
    r"""Adafactor: second moments of matrices by their rows and columns.

    For a variable $p$ of $n$ rows and $m$ columns with gradient $g$, in step
    $t$ = 1, 2, ..., with $\operatorname{rms}(x) =
    \sqrt{\operatorname{mean}(x^2)}$ and $\rho_t = \min(\eta, 1 / \sqrt{t})$, or
    $\eta$ with `relative_step=False`:

    $$
    \begin{aligned}
    \beta_t &= 1 - t^d \qquad (d = \text{beta\_2\_decay}) \\
    r &\leftarrow \beta_t r + (1 - \beta_t)
        \operatorname{mean}_{\text{columns}}(g^2 + \epsilon_1) \\
    c &\leftarrow \beta_t c + (1 - \beta_t)
        \operatorname{mean}_{\text{rows}}(g^2 + \epsilon_1) \\
    u &= g / \sqrt{r c^T / \operatorname{mean}(r)} \\
    p &\leftarrow p - \rho_t \max(\epsilon_2, \operatorname{rms}(p)) \,
        u / \max(1, \operatorname{rms}(u) / \text{clip\_threshold})
    \end{aligned}
    $$

    The state of a matrix is $n + m$ numbers, not $n m$. Of a variable with more
    axes, the last two are rows and columns. Scalars, vectors and complex
    variables keep the whole second moment.

    There is no custom op: the update needs sums over the variable before it
    changes any element. So a table can't be lazy (`lazy_mode`).

    `tf_opt.from_keras` gives the numbers of `keras.optimizers.Adafactor`. That
    keeps a second moment of the variable's size as well, and computes the same
    with `relative_step=False` as with True.

    Args:
        beta_2_decay: Power $d$ <= 0 by which the second moments' decay nears 1.
        epsilon_1: $\epsilon_1$, >= 0, which keeps the root from being 0.
        epsilon_2: $\epsilon_2$, >= 0: the least $\operatorname{rms}(p)$ that
            counts, so that variables leave 0.
        clip_threshold: The largest $\operatorname{rms}(u)$.
        relative_step: Whether steps shrink with $1 / \sqrt{t}$.

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> variable = keras.Variable([[3.0, 4.0]])
    >>> optimizer = tf_opt.Adafactor(learning_rate=0.1)
    >>> optimizer.apply([tf.constant([[0.5, 2.0]])], [variable])
    >>> variable.numpy().round(4).tolist()
    [[2.646399974822998, 3.646399974822998]]

    References:
        - [Shazeer and Stern, 2018](https://arxiv.org/abs/1804.04235)
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        beta_2_decay: Number = -0.8,
        epsilon_1: Number = 1e-30,
        epsilon_2: Number = 1e-3,
        clip_threshold: Number = 1.0,
        relative_step: bool = True,
        **common: Unpack[CommonArguments],
    ) -> None: ...
