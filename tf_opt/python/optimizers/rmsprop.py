"""RMSprop, with and without momentum, as a Keras optimizer."""

from __future__ import annotations

import keras
from typing_extensions import Unpack

from tf_opt.python.functional import rmsprop_rule
from tf_opt.python.keras_internals import LearningRate, Number
from tf_opt.python.optimizers.base.arguments import CommonArguments
from tf_opt.python.optimizers.base.definition import optimizer
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer


@optimizer(rmsprop_rule.SPEC, keras.optimizers.RMSprop)
class RMSprop(FusedOptimizer):
    r"""RMSprop: gradients divided by the root of their averaged squares.

    For a variable $p$ with gradient $g$, with $\mu$ = `momentum`:

    $$
    \begin{aligned}
    v &\leftarrow \rho v + (1 - \rho) g^2 \\
    a &\leftarrow \rho a + (1 - \rho) g
        && \text{centered; } \max(v - a^2, 0) \text{ takes the place of } v
        \text{ below} \\
    d &= \frac{g}{\sqrt{v + \epsilon}}
        && \text{or, with torch\_epsilon, }
        \frac{g}{\sqrt{v} + \epsilon} \\
    p &\leftarrow p - \eta d && \text{without momentum} \\
    b &\leftarrow \mu b + \eta d, \quad p \leftarrow p - b
        && \text{Keras' momentum} \\
    b &\leftarrow \mu b + d, \quad p \leftarrow p - \eta b
        && \text{PyTorch's}
    \end{aligned}
    $$

    Results match Keras, whose `keras.optimizers.RMSprop` has interchangeable
    `variables`, except where ids repeat in a batch (see `tf_opt.from_keras`).
    With `torch_epsilon=True`, `torch_momentum=True` and
    `decoupled_weight_decay=False` they match PyTorch, whose defaults are
    `RMSprop(0.01, rho=0.99, epsilon=1e-8)`. There is state for momentum and for
    `centered` only with these options. They can be switched off and on again if
    the optimizer was built with them. Otherwise they can't be switched on.

    Args:
        rho: Decay $\rho$ of the averages, in [0, 1).
        momentum: $\mu$, the part of the momentum that remains, in [0, 1]; 0 is
            no momentum.
        epsilon: $\epsilon$, >= 0, which keeps the root from being 0.
        centered: Whether to divide by an estimate of the standard deviation.
        torch_epsilon: Whether epsilon is added to the root, as in PyTorch, and
            not inside of it, as in Keras.
        torch_momentum: Whether momentum has PyTorch's form, without the
            learning rate.

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> variable = keras.Variable([1.0, 2.0])
    >>> optimizer = tf_opt.RMSprop(learning_rate=0.1, rho=0.75)
    >>> optimizer.apply([tf.constant([0.5, -0.5])], [variable])
    >>> print(variable.numpy().round(3))
    [0.8 2.2]

    References:
        - [Hinton, 2012](
          https://www.cs.toronto.edu/~tijmen/csc321/slides/lecture_slides_lec6.pdf)
        - [Graves, 2013](https://arxiv.org/abs/1308.0850) for the centered form.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        rho: Number = 0.9,
        momentum: Number = 0.0,
        epsilon: Number = 1e-7,
        centered: bool = False,
        *,
        torch_epsilon: bool = False,
        torch_momentum: bool = False,
        **common: Unpack[CommonArguments],
    ) -> None: ...
