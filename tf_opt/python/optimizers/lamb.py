"""Lamb as a Keras optimizer."""

from __future__ import annotations

import keras
from typing_extensions import Unpack

from tf_opt.python.functional import lamb_rule
from tf_opt.python.keras_internals import LearningRate, Number
from tf_opt.python.optimizers.base.arguments import CommonArguments
from tf_opt.python.optimizers.base.definition import optimizer
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer


@optimizer(lamb_rule.SPEC, keras.optimizers.Lamb, decay_in_direction=False)
class Lamb(FusedOptimizer):
    r"""Lamb: Adam's direction, as long as the variable is large.

    For a variable $p$ with gradient $g$, in step $t$ = 1, 2, ..., with
    $\lambda$ = `weight_decay`:

    $$
    \begin{aligned}
    m &\leftarrow \beta_1 m + (1 - \beta_1) g \\
    v &\leftarrow \beta_2 v + (1 - \beta_2) g^2 \\
    u &= \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}
        + \lambda p \\
    p &\leftarrow p - \eta \, \frac{\lVert p \rVert}{\lVert u \rVert} \, u
    \end{aligned}
    $$

    The ratio of the norms, over the whole variable, is 1 where one of them is
    0. So each variable moves by the same fraction of its size, which allows
    large batches.

    There is no custom op: the update needs sums over the variable before it
    changes any element. So a table can't be lazy (`lazy_mode`).

    With `decay_in_direction=False` results match `keras.optimizers.Lamb`, whose
    weight decay shrinks the variable before the step and so is outside of the
    ratio. The `variables` of both are interchangeable.

    Args:
        beta_1: Decay of the first moment, in [0, 1).
        beta_2: Decay of the second moment, in [0, 1).
        epsilon: Added to the denominator, >= 0.
        decay_in_direction: Whether decoupled weight decay is part of $u$, as in
            the paper.

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> variable = keras.Variable([3.0, 4.0])
    >>> optimizer = tf_opt.Lamb(learning_rate=0.1)
    >>> optimizer.apply([tf.constant([1.0, 1.0])], [variable])
    >>> variable.numpy().round(4).tolist()
    [2.646399974822998, 3.646399974822998]

    References:
        - [You et al., 2020](https://arxiv.org/abs/1904.00962)
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        beta_1: Number = 0.9,
        beta_2: Number = 0.999,
        epsilon: Number = 1e-7,
        *,
        decay_in_direction: bool = True,
        **common: Unpack[CommonArguments],
    ) -> None: ...
