"""Adadelta as a Keras optimizer."""

from __future__ import annotations

import keras
from typing_extensions import Unpack

from tf_opt.python.functional import adadelta_rule
from tf_opt.python.keras_internals import LearningRate, Number
from tf_opt.python.optimizers.base.arguments import CommonArguments
from tf_opt.python.optimizers.base.definition import optimizer
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer


@optimizer(adadelta_rule.SPEC, keras.optimizers.Adadelta)
class Adadelta(FusedOptimizer):
    r"""Adadelta: steps of the size of the past ones, in one pass.

    For a variable $p$ with gradient $g$:

    $$
    \begin{aligned}
    a &\leftarrow \rho a + (1 - \rho) g^2 \\
    x &= \sqrt{\frac{d + \epsilon}{a + \epsilon}} \, g \\
    d &\leftarrow \rho d + (1 - \rho) x^2 \\
    p &\leftarrow p - \eta x
    \end{aligned}
    $$

    Results match Keras, whose `keras.optimizers.Adadelta` has interchangeable
    `variables`, except where ids repeat in a batch (see `tf_opt.from_keras`).
    They also match PyTorch (with `decoupled_weight_decay=False`), whose
    defaults are `Adadelta(1.0, rho=0.9, epsilon=1e-6)`. The paper's rate is 1.

    Args:
        rho: Decay $\rho$ of the averages, in [0, 1).
        epsilon: $\epsilon$, >= 0, with which the first steps begin.

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> variable = keras.Variable([1.0, 2.0])
    >>> optimizer = tf_opt.Adadelta(learning_rate=1.0, rho=0.9, epsilon=1e-6)
    >>> optimizer.apply([tf.constant([0.5, -0.5])], [variable])
    >>> print(variable.numpy().round(3))
    [0.997 2.003]

    References:
        - [Zeiler, 2012](https://arxiv.org/abs/1212.5701)
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        rho: Number = 0.95,
        epsilon: Number = 1e-7,
        **common: Unpack[CommonArguments],
    ) -> None: ...
