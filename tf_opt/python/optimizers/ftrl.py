"""FTRL-Proximal as a Keras optimizer."""

from __future__ import annotations

from typing import Any

import keras
from typing_extensions import Unpack

from tf_opt.python.dispatch import COMPOSED, CUSTOM_OP
from tf_opt.python.functional import ftrl_rule
from tf_opt.python.functional.arithmetic import is_known
from tf_opt.python.functional.checks import require
from tf_opt.python.keras_internals import LearningRate, Number
from tf_opt.python.optimizers.base.arguments import CommonArguments
from tf_opt.python.optimizers.base.definition import optimizer
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.step.context import StepContext


@optimizer(ftrl_rule.SPEC, keras.optimizers.Ftrl)
class Ftrl(FusedOptimizer):
    r"""FTRL-Proximal ("follow the regularized leader"), for wide models.

    For a variable $p$ with gradient $g$, accumulator $n$ and linear sum $z$,
    with $\lambda_1$, $\lambda_2$ and $\lambda_s$ the strengths of L1, L2 and of
    the shrinkage, and $q$ = `learning_rate_power`:

    $$
    \begin{aligned}
    n' &= n + g^2 \\
    z &\leftarrow z + g + 2 \lambda_s p - \frac{n'^{-q} - n^{-q}}{\eta} \, p \\
    p &\leftarrow 0 && \text{if } |z| \le \lambda_1 \text{, or} \\
    p &\leftarrow \frac{\operatorname{sign}(z) \lambda_1 - z}
        {(n'^{-q} + \beta) / \eta + 2 \lambda_2} \\
    n &\leftarrow n'
    \end{aligned}
    $$

    If $\eta$ is 0, nothing changes. The custom op has a $q$ of -0.5, the root;
    others run composed.

    **Rows of an embedding table without a gradient change, too**, so a step
    passes over the whole table, as in Keras. With `lazy_mode=True` it updates
    only the rows that occur, as TensorFlow's own op does and Keras 2 did: the
    form for large tables. The shrinkage is then a penalty of these rows.

    Results match Keras, whose `keras.optimizers.Ftrl` has interchangeable
    `variables`, except where ids repeat in a batch (see `tf_opt.from_keras`).

    Args:
        learning_rate_power: $q$, <= 0: how steps shrink with $n$.
        initial_accumulator_value: First value of $n$, >= 0.
        l1_regularization_strength: $\lambda_1$, >= 0, sets elements to 0.
        l2_regularization_strength: $\lambda_2$, >= 0, makes steps smaller.
        l2_shrinkage_regularization_strength: $\lambda_s$, >= 0, an L2 penalty
            of the loss.
        beta: $\beta$, >= 0, added to $n^{-q}$.

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> variable = keras.Variable([0.0, 0.0])
    >>> optimizer = tf_opt.Ftrl(
    ...     0.5, initial_accumulator_value=0.0, l1_regularization_strength=1.0)
    >>> optimizer.apply([tf.constant([2.0, 0.5])], [variable])
    >>> variable.numpy().tolist()
    [-0.25, 0.0]

    References:
        - [McMahan et al., 2013](
          https://research.google.com/pubs/archive/41159.pdf)
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        learning_rate_power: Number = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: Number = 0.0,
        l2_regularization_strength: Number = 0.0,
        l2_shrinkage_regularization_strength: Number = 0.0,
        beta: Number = 0.0,
        **common: Unpack[CommonArguments],
    ) -> None: ...

    def _context(self, **options: Any) -> StepContext:
        context = super()._context(**options)
        power = self.learning_rate_power
        if is_known(power, -0.5):
            return context
        allowed = (
            '-0.5 with `implementation="custom_op"`. Use "auto" or "composed"'
        )
        is_right = context.implementation != CUSTOM_OP
        require(is_right, "learning_rate_power", power, allowed)
        return context.replace(implementation=COMPOSED)
