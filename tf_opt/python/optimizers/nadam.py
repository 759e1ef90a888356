"""NAdam as a Keras optimizer."""

from __future__ import annotations

import keras
from typing_extensions import Unpack

from tf_opt.python.functional import nadam_rule
from tf_opt.python.keras_internals import LearningRate, Number
from tf_opt.python.optimizers.base.arguments import CommonArguments
from tf_opt.python.optimizers.base.definition import optimizer
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer


@optimizer(nadam_rule.SPEC, keras.optimizers.Nadam, momentum_decay=1.0)
class NAdam(FusedOptimizer):
    r"""NAdam (Adam with Nesterov momentum), in one pass over the model.

    For a variable $p$ with gradient $g$, in step $t$ = 1, 2, ..., with
    $\psi$ = `momentum_decay`:

    $$
    \begin{aligned}
    \mu_t &= \beta_1 (1 - \tfrac{1}{2} 0.96^{t \psi}) \\
    P &\leftarrow P \mu_t \\
    m &\leftarrow \beta_1 m + (1 - \beta_1) g \\
    v &\leftarrow \beta_2 v + (1 - \beta_2) g^2 \\
    p &\leftarrow p - \eta \, \frac{\mu_{t+1} m / (1 - P \mu_{t+1})
        + (1 - \mu_t) g / (1 - P)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}
    \end{aligned}
    $$

    Results match PyTorch and Paddle (with `decoupled_weight_decay=False`); with
    `epsilon=1e-7, momentum_decay=1.0` they match `keras.optimizers.Nadam`,
    except where ids repeat in a batch (see `tf_opt.from_keras`). The
    `variables` of both are interchangeable. All variables share the scalar $P$,
    which is float64 if any variable is, and float32 otherwise.

    Args:
        beta_1: Decay of the first moment, in [0, 1).
        beta_2: Decay of the second moment, in [0, 1).
        epsilon: Added to the denominator, >= 0.
        momentum_decay: Rate at which the momentum grows from half of `beta_1`
            to `beta_1`, >= 0: 0.004 in PyTorch and Paddle, 1 in Keras.

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> variable = keras.Variable([1.0, 2.0])
    >>> optimizer = tf_opt.NAdam(learning_rate=0.1)
    >>> optimizer.apply([tf.constant([0.5, -0.5])], [variable])
    >>> variable.numpy().round(4).tolist()
    [0.8944000005722046, 2.105600118637085]

    References:
        - [Dozat, 2016](https://openreview.net/forum?id=OM0jvwB8jIp57ZJjtNEZ);
          the schedule is PyTorch's and Paddle's.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 2e-3,
        beta_1: Number = 0.9,
        beta_2: Number = 0.999,
        epsilon: Number = 1e-8,
        *,
        momentum_decay: Number = 4e-3,
        **common: Unpack[CommonArguments],
    ) -> None: ...
