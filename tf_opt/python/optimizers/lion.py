"""Lion as a Keras optimizer."""

from __future__ import annotations

import keras
from typing_extensions import Unpack

from tf_opt.python.functional import lion_rule
from tf_opt.python.keras_internals import LearningRate, Number
from tf_opt.python.optimizers.base.arguments import CommonArguments
from tf_opt.python.optimizers.base.definition import optimizer
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer


@optimizer(lion_rule.SPEC, keras.optimizers.Lion)
class Lion(FusedOptimizer):
    r"""Lion (evolved sign momentum), in one pass over the model.

    For a variable $p$ with gradient $g$:

    $$
    \begin{aligned}
    p &\leftarrow p - \eta \operatorname{sign}(\beta_1 m + (1 - \beta_1) g) \\
    m &\leftarrow \beta_2 m + (1 - \beta_2) g
    \end{aligned}
    $$

    Every element moves by the learning rate, whatever its gradient's size:
    take a learning rate that is 3 to 10 times smaller than AdamW's, and a
    weight decay that is as many times larger. Results match
    `keras.optimizers.Lion`, whose `variables` are interchangeable with those of
    this optimizer.

    Args:
        beta_1: The moment's part of the direction, in [0, 1].
        beta_2: Decay of the first moment, in [0, 1].

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> variable = keras.Variable([1.0, 2.0])
    >>> optimizer = tf_opt.Lion(learning_rate=0.25, weight_decay=0.5)
    >>> optimizer.apply([tf.constant([0.5, -0.5])], [variable])
    >>> variable.numpy().tolist()
    [0.625, 2.0]

    References:
        - [Chen et al., 2023](https://arxiv.org/abs/2302.06675)
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        beta_1: Number = 0.9,
        beta_2: Number = 0.99,
        **common: Unpack[CommonArguments],
    ) -> None: ...
