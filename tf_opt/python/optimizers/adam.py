"""Adam, with and without AMSGrad, and AdamW as Keras optimizers."""

from __future__ import annotations

import keras
from typing_extensions import Unpack

from tf_opt.python.functional import adam_rule
from tf_opt.python.functional.checks import require
from tf_opt.python.keras_internals import LearningRate, Number
from tf_opt.python.optimizers.base.arguments import CommonArguments
from tf_opt.python.optimizers.base.definition import optimizer
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.values import validation


@optimizer(adam_rule.SPEC, keras.optimizers.Adam, epsilon_hat=True)
class Adam(FusedOptimizer):
    r"""Adam, with or without AMSGrad, in one pass over the model.

    For a variable $p$ with gradient $g$, in step $t$ = 1, 2, ...:

    $$
    \begin{aligned}
    m &\leftarrow \beta_1 m + (1 - \beta_1) g \\
    v &\leftarrow \beta_2 v + (1 - \beta_2) g^2 \\
    v_{max} &\leftarrow \max(v_{max}, v)
        && \text{AMSGrad; takes the place of } v \text{ below} \\
    p &\leftarrow p - \frac{\eta}{1 - \beta_1^t} \cdot
        \frac{m}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}
    \end{aligned}
    $$

    Results match PyTorch and Paddle (with `decoupled_weight_decay=False`); with
    `epsilon=1e-7, epsilon_hat=True` they match Keras, except where ids repeat
    in a batch (see `tf_opt.from_keras`). `optimizer.variables` is
    interchangeable with that of `keras.optimizers.Adam(amsgrad=...)`.

    Args:
        beta_1: Decay of the first moment, in [0, 1).
        beta_2: Decay of the second moment, in [0, 1).
        epsilon: Added to the denominator, >= 0.
        amsgrad: Whether to use the running maximum of the second moments. It is
            over uncorrected moments, as in PyTorch and Keras.
        epsilon_hat: Whether to add epsilon before the bias correction, as Keras
            and TensorFlow do. The step is then $\eta \sqrt{1 - \beta_2^t} /
            (1 - \beta_1^t) \cdot m / (\sqrt{v} + \epsilon)$.

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> variable = keras.Variable([1.0, 2.0])
    >>> optimizer = tf_opt.Adam(learning_rate=0.1)
    >>> optimizer.apply([tf.constant([0.5, -0.5])], [variable])
    >>> variable.numpy().round(4).tolist()
    [0.8999999761581421, 2.0999999046325684]

    References:
        - [Kingma and Ba, 2015](https://arxiv.org/abs/1412.6980)
        - [Loshchilov and Hutter, 2019](https://arxiv.org/abs/1711.05101)
        - [Reddi et al., 2018](https://arxiv.org/abs/1904.09237)
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        beta_1: Number = 0.9,
        beta_2: Number = 0.999,
        epsilon: Number = 1e-8,
        amsgrad: bool = False,
        *,
        epsilon_hat: bool = False,
        **common: Unpack[CommonArguments],
    ) -> None: ...


def _check_some_weight_decay(name: str, value: Number | None) -> None:
    """Raises unless it is a number >= 0 or a scalar variable."""
    allowed = "a number >= 0 for AdamW (for none, use tf_opt.Adam)"
    require(value is not None, name, value, allowed)
    validation.check_number(name, value, validation.WEIGHT_DECAY)


@optimizer(adam_rule.SPEC, keras.optimizers.AdamW, epsilon_hat=True)
class AdamW(Adam):
    r"""Adam with decoupled weight decay, in one pass over the model.

    With $\lambda$ = `weight_decay`, it does this before each step of
    `tf_opt.Adam`:

    $$
    p \leftarrow p - \eta \lambda p
    $$

    $\lambda$ can't be None: without decay, this is `tf_opt.Adam`.

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> variable = keras.Variable([1.0, 2.0])
    >>> optimizer = tf_opt.AdamW(learning_rate=0.1, weight_decay=0.5)
    >>> optimizer.exclude_from_weight_decay(var_names=["bias"])
    >>> optimizer.apply([tf.constant([0.5, -0.5])], [variable])
    >>> variable.numpy().round(4).tolist()
    [0.8500000238418579, 2.0]

    References:
        - [Loshchilov and Hutter, 2019](https://arxiv.org/abs/1711.05101). The
          decay is multiplied by the learning rate, as in PyTorch and Keras.
    """

    _own_checks = {"weight_decay": _check_some_weight_decay}

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        weight_decay: Number = 0.01,
        beta_1: Number = 0.9,
        beta_2: Number = 0.999,
        epsilon: Number = 1e-8,
        amsgrad: bool = False,
        *,
        epsilon_hat: bool = False,
        **common: Unpack[CommonArguments],
    ) -> None: ...
