"""AveragedSGD, Polyak's and Ruppert's averaging, as a Keras optimizer."""

from __future__ import annotations

from typing_extensions import Unpack

from tf_opt.python.functional import averaged_sgd_rule
from tf_opt.python.keras_internals import LearningRate, Number
from tf_opt.python.optimizers.base.arguments import CommonArguments
from tf_opt.python.optimizers.base.definition import optimizer
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer


@optimizer(averaged_sgd_rule.SPEC)
class AveragedSGD(FusedOptimizer):
    r"""Stochastic gradient descent that averages its iterates.

    For a variable $p$ with gradient $g$ and average $ax$, in step $t$ = 1, 2,
    ..., with $\gamma$ = `learning_rate`, $\lambda$ = `lambd` and a step size
    $\eta$ that is $\gamma$ in the first step:

    $$
    \begin{aligned}
    p &\leftarrow p (1 - \lambda \eta) - \eta g \\
    \mu &= 1 / \max(1, t - 1 - t_0) \\
    ax &\leftarrow p && \text{while } \mu = 1 \text{, else} \\
    ax &\leftarrow ax + \mu (p - ax) \\
    \eta &\leftarrow \gamma / (1 + \lambda \gamma t)^\alpha
    \end{aligned}
    $$

    Results match `torch.optim.ASGD(foreach=False)` (with
    `decoupled_weight_decay=False`), including its `ax`: up to step `t0 + 2` the
    average is a copy of the variable; later it is the mean of all values since
    then.

    No table can be lazy (`lazy_mode`), because averages cover all rows.
    Training always uses the variables themselves. To evaluate or save with the
    averages, swap them in. No step may run while they are swapped in:

    - `with optimizer.averaged_weights(): model.evaluate(...)`;
    - `optimizer.swap_in_average()` and `optimizer.swap_out_average()`;
    - in `model.fit`, `tf_opt.callbacks.SwapAveragedWeights`.

    Args:
        learning_rate: $\gamma$, >= 0: a float, a Keras `LearningRateSchedule`,
            or a callable without arguments. It determines the step size of the
            next step.
        lambd: Strength $\lambda$ of the decay of variable and step size, >= 0.
        alpha: Power $\alpha$ of the step size's decay, >= 0.
        t0: Number of steps $t_0$ before averaging begins, >= 0, as above.

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> variable = keras.Variable(1.0)
    >>> optimizer = tf_opt.AveragedSGD(learning_rate=0.25, lambd=0.0, t0=1)
    >>> for _ in range(4):
    ...     optimizer.apply([tf.constant(1.0)], [variable])
    >>> with optimizer.averaged_weights():
    ...     float(variable)
    0.125
    >>> float(variable)
    0.0

    References:
        - Polyak and Juditsky, 1992, "Acceleration of Stochastic Approximation
          by Averaging"; Ruppert, 1988.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-2,
        *,
        lambd: Number = 1e-4,
        alpha: Number = 0.75,
        t0: Number = 1e6,
        **common: Unpack[CommonArguments],
    ) -> None: ...
