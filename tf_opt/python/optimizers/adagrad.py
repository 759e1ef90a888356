"""Adagrad as a Keras optimizer."""

from __future__ import annotations

import keras
from typing_extensions import Unpack

from tf_opt.python.functional import adagrad_rule
from tf_opt.python.keras_internals import LearningRate, Number
from tf_opt.python.optimizers.base.arguments import CommonArguments
from tf_opt.python.optimizers.base.definition import optimizer
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.base.keras_optimizer import choice
from tf_opt.python.optimizers.state import table_modes
from tf_opt.python.optimizers.state.table_modes import RowWise


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
    (`tf.IndexedSlices`) a step costs as much as the rows that occur. With
    weight decay, `use_ema`, accumulation or master weights, it passes over the
    table. The bits are those of a dense gradient.

    Results match Keras, whose `keras.optimizers.Adagrad` has interchangeable
    `variables`, except for repeated rows, whose squares Keras adds up one by
    one, and for `row_wise`. With `initial_accumulator_value=0`,
    `epsilon=1e-10`, `torch_epsilon=True` and `decoupled_weight_decay=False`
    they match PyTorch.

    With `row_wise`, the rows of embedding tables have one accumulator each
    ("row-wise Adagrad"), as in TorchRec: $a_r \leftarrow a_r +
    \operatorname{mean}(g_r^2)$ for a row $r$. So a table of 1,000,000 rows and
    64 columns has 4 MB of state instead of 256; see docs/row-wise.md.

    Args:
        initial_accumulator_value: First value of the accumulator, >= 0.
        epsilon: $\epsilon$, >= 0, which keeps the root from being 0.
        torch_epsilon: Whether epsilon is added to the root, as in PyTorch, and
            not inside of it, as in Keras.
        row_wise: Tables whose rows have one accumulator each: True for all
            variables named `embeddings`, as in Keras' `Embedding`, or a list of
            regular expressions for the tables' paths. It can't be changed once
            the optimizer is built.

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
        - Row-wise:
          [Mudigere et al., 2021](https://arxiv.org/abs/2104.05158)
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        initial_accumulator_value: float = 0.1,
        epsilon: Number = 1e-7,
        *,
        torch_epsilon: bool = False,
        row_wise: RowWise = False,
        **common: Unpack[CommonArguments],
    ) -> None: ...

    row_wise: RowWise = choice(
        "row_wise",
        table_modes.check_row_wise,
        "Tables whose rows have one accumulator each.",
    )
