"""Schedule-Free AdamW as a Keras optimizer."""

from __future__ import annotations

import keras
from typing_extensions import Unpack

from tf_opt.python.functional import schedule_free_adamw_rule
from tf_opt.python.keras_internals import LearningRate, Number
from tf_opt.python.optimizers.base.arguments import CommonArguments
from tf_opt.python.optimizers.base.definition import optimizer
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer


@optimizer(
    schedule_free_adamw_rule.SPEC,
    # Older versions of Keras lack it.
    getattr(keras.optimizers, "ScheduleFreeAdamW", None),
    weight_lr_power=0.0,
    decay_in_direction=False,
)
class ScheduleFreeAdamW(FusedOptimizer):
    r"""Schedule-Free AdamW, in one pass over the model.

    It averages its iterates in place of a learning rate schedule, so the number
    of steps needn't be known in advance. Gradients are computed at $p$, between
    the average $x$ and the iterate $z$.

    For a variable $p$ with gradient $g$, in step $t$ = 1, 2, ..., with
    $\lambda$ = `weight_decay`, `warmup_steps` $T$ and `weight_lr_power` $q$:

    $$
    \begin{aligned}
    \gamma_t &= \eta \min(1, t / T) \\
    w_t &= t^r \max(\gamma_1, ..., \gamma_t)^q \\
    c &= w_t / (w_1 + ... + w_t) \\
    v &\leftarrow \beta_2 v + (1 - \beta_2) g^2 \\
    d &= g / (\sqrt{v / (1 - \beta_2^t)} + \epsilon) + \lambda p \\
    p &\leftarrow p + c (z - p) - \gamma_t (1 - \beta_1 (1 - c)) d \\
    z &\leftarrow z - \gamma_t d
    \end{aligned}
    $$

    The average is $x = z + (p - z) / \beta_1$. It isn't stored. **Evaluate and
    save with the average**, which the optimizer swaps in:

    - In `model.fit`, pass `tf_opt.callbacks.SwapAveragedWeights()`. Validation
      then uses the average, and so does the model after `fit`. The next `fit`
      with the callback continues from $p$, or where other code has set weights
      from these: $x = z = p$.
    - Elsewhere use `with optimizer.averaged_weights():`, or
      `optimizer.swap_in_average()` and `optimizer.swap_out_average()`. No step
      may run while the average is swapped in.

    Results match the authors' `schedulefree.AdamWScheduleFree`, whose `train()`
    and `eval()` these methods replace. With `weight_lr_power=0.0,
    decay_in_direction=False` results match the formula in the source of
    `keras.optimizers.ScheduleFreeAdamW`; what Keras computes from it on
    TensorFlow differs (see docs/differences.md). The state of both is
    interchangeable.

    No table can be lazy (`lazy_mode`), because averages cover all rows.

    Args:
        beta_1: The weight $\beta_1$ of the average where gradients are
            computed, in [0, 1). There is no average with 0.
        beta_2: Decay of the second moment, in [0, 1).
        epsilon: Added to the denominator, >= 0.
        warmup_steps: The number of steps $T$ in which the learning rate grows
            from 0, >= 0.
        weight_lr_power: Power of the learning rate in the weights of steps.
        r: Power of $t$ in the weights of steps, >= 0.
        decay_in_direction: Whether the decay is part of $d$, as above.
            Otherwise it first shrinks the variable, as in Keras. `False` for
            `decoupled_weight_decay` turns both off, for L2 decay.

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> variable = keras.Variable([1.0, 2.0])
    >>> optimizer = tf_opt.ScheduleFreeAdamW(learning_rate=0.1)
    >>> for _ in range(2):
    ...     optimizer.apply([tf.constant([0.5, -0.5])], [variable])
    >>> variable.numpy().round(3).tolist()
    [0.8450000286102295, 2.1549999713897705]
    >>> with optimizer.averaged_weights():
    ...     variable.numpy().round(3).tolist()
    [0.8500000238418579, 2.1500000953674316]

    References:
        - [Defazio et al., 2024](https://arxiv.org/abs/2405.15682).
    """

    def __init__(
        self,
        learning_rate: LearningRate = 2.5e-3,
        beta_1: Number = 0.9,
        beta_2: Number = 0.999,
        epsilon: Number = 1e-8,
        warmup_steps: Number = 0,
        *,
        weight_lr_power: Number = 2.0,
        r: Number = 0.0,
        decay_in_direction: bool = True,
        **common: Unpack[CommonArguments],
    ) -> None: ...
