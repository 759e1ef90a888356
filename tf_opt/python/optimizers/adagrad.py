"""Adagrad as a Keras optimizer."""

from __future__ import annotations

import keras
from typing_extensions import Unpack

from tf_opt.python.functional import adagrad_rule
from tf_opt.python.keras_internals import Number
from tf_opt.python.optimizers.base.arguments import CommonArguments
from tf_opt.python.optimizers.base.arguments import LearningRate
from tf_opt.python.optimizers.base.definition import optimizer
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer


@optimizer(adagrad_rule.SPEC, keras.optimizers.Adagrad)
class Adagrad(FusedOptimizer):
    r"""Adagrad: steps that shrink with the sum of squared gradients.

    For a variable $p$ with gradient $g$ and accumulator $a$:

    $$
    \begin{aligned}
    a &\leftarrow a + g^2 \\
    p &\leftarrow p - \eta \, \frac{g}{\sqrt{a + \epsilon}}
        && \text{or, with torch\_epsilon, }
        p - \eta \, \frac{g}{\sqrt{a} + \epsilon}
    \end{aligned}
    $$

    Where there is no gradient, nothing changes. So for an embedding table
    (`tf.IndexedSlices`) a step costs as much as the rows that occur, and gives
    the same bits as a dense gradient; repeated rows are summed. Weight decay
    and `use_ema` move all rows, and then a step passes over the whole table.

    Results match Keras, whose `keras.optimizers.Adagrad` has interchangeable
    `variables`, except for repeated rows, whose squares Keras adds up one by
    one. With `torch_epsilon=True`, `initial_accumulator_value=0` and
    `decoupled_weight_decay=False` they match PyTorch. Accumulators and
    arithmetic are float32 for float16, bfloat16 and float32 variables and
    float64 for float64 variables.

    Args:
        learning_rate: Step size $\eta$, >= 0: a float, a
            `keras.optimizers.schedules.LearningRateSchedule`, or a callable
            without arguments.
        initial_accumulator_value: First value of the accumulator, >= 0.
        epsilon: $\epsilon$, >= 0, which keeps the root from being 0.
        torch_epsilon: Whether epsilon is added to the root, as in PyTorch, and
            not inside of it, as in Keras.

    {{common_arguments}}

    Raises:
        ValueError: If an argument is out of range, or doesn't go with another.

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> table = keras.Variable([[1.0, 2.0], [3.0, 4.0]])
    >>> optimizer = tf_opt.Adagrad(0.5, initial_accumulator_value=0.0)
    >>> gradient = tf.IndexedSlices(
    ...     tf.constant([[0.5, -0.5]]), tf.constant([1]))
    >>> optimizer.apply([gradient], [table])
    >>> table.numpy().round(3).tolist()
    [[1.0, 2.0], [2.5, 4.5]]

    References:
        - [Duchi et al., 2011](https://jmlr.org/papers/v12/duchi11a.html)
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        initial_accumulator_value: float = 0.1,
        epsilon: Number = 1e-7,
        *,
        torch_epsilon: bool = False,
        **common: Unpack[CommonArguments],
    ) -> None:
        super().__init__(
            learning_rate,
            initial_accumulator_value=initial_accumulator_value,
            epsilon=epsilon,
            torch_epsilon=torch_epsilon,
            **common,
        )
