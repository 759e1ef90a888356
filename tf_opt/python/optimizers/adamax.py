"""Adamax as a Keras optimizer."""

from __future__ import annotations

import keras
from typing_extensions import Unpack

from tf_opt.python.functional import adamax_rule
from tf_opt.python.keras_internals import LearningRate, Number
from tf_opt.python.optimizers.base.arguments import CommonArguments
from tf_opt.python.optimizers.base.definition import optimizer
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer


@optimizer(adamax_rule.SPEC, keras.optimizers.Adamax)
class Adamax(FusedOptimizer):
    r"""Adamax: Adam with the infinity norm, in one pass over the model.

    For a variable $p$ with gradient $g$, in step $t$ = 1, 2, ...:

    $$
    \begin{aligned}
    m &\leftarrow \beta_1 m + (1 - \beta_1) g \\
    u &\leftarrow \max(\beta_2 u, |g|)
        && \text{or, with torch\_epsilon, }
        \max(\beta_2 u, |g| + \epsilon) \\
    p &\leftarrow p - \frac{\eta}{1 - \beta_1^t} \cdot \frac{m}{u + \epsilon}
        && \text{or, with torch\_epsilon, }
        p - \frac{\eta}{1 - \beta_1^t} \cdot \frac{m}{u}
    \end{aligned}
    $$

    Results match Keras, whose `keras.optimizers.Adamax` has interchangeable
    `variables`, except where ids repeat in a batch (see `tf_opt.from_keras`).
    With `epsilon=1e-8, torch_epsilon=True` (and `decoupled_weight_decay=False`)
    they match PyTorch.

    Args:
        beta_1: Decay of the first moment, in [0, 1).
        beta_2: Decay of the norm, in [0, 1).
        epsilon: $\epsilon$, >= 0, which keeps the norm from being 0.
        torch_epsilon: Whether epsilon is inside of the maximum, as in PyTorch,
            and not added to the norm, as in Keras.

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> variable = keras.Variable([1.0, 2.0])
    >>> optimizer = tf_opt.Adamax(learning_rate=0.1)
    >>> optimizer.apply([tf.constant([0.5, -0.5])], [variable])
    >>> print(variable.numpy().round(3))
    [0.9 2.1]

    References:
        - [Kingma and Ba, 2015](https://arxiv.org/abs/1412.6980), section 7.1
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        beta_1: Number = 0.9,
        beta_2: Number = 0.999,
        epsilon: Number = 1e-7,
        *,
        torch_epsilon: bool = False,
        **common: Unpack[CommonArguments],
    ) -> None: ...
