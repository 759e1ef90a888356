"""AdamW as a Keras optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import keras

from tf_opt.python.optimizers.adam import Adam
from tf_opt.python.optimizers.base.arguments import Options
from tf_opt.python.optimizers.base.arguments import common_arguments
from tf_opt.python.optimizers.base.arguments import with_options
from tf_opt.python.optimizers.base.configuration import LearningRate
from tf_opt.python.optimizers.base.docstrings import with_common_arguments
from tf_opt.python.optimizers.state.factors import WeightDecay

if TYPE_CHECKING:
    from typing_extensions import Unpack


@keras.saving.register_keras_serializable("tf_opt")
@with_options
@with_common_arguments
class AdamW(Adam):
    r"""Adam with decoupled weight decay, in one pass over the model.

    It does this before each step of `tf_opt.Adam`:

    $$
    p \leftarrow p - \eta \lambda p
    $$

    Args:
        {{learning_rate}}
        {{moments}}
        amsgrad: Whether to use the running maximum of the second moments.
        {{common_arguments}}
        epsilon_hat: Whether to add epsilon before the bias correction; see
            `tf_opt.Adam`.

    Raises:
        ValueError: If an argument is out of range, or `weight_decay` is None.

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

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        weight_decay: WeightDecay = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        amsgrad: bool = False,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
        use_ema: bool = False,
        ema_momentum: float = 0.99,
        ema_overwrite_frequency: int | None = None,
        loss_scale_factor: float | None = None,
        gradient_accumulation_steps: int | None = None,
        name: str | None = None,
        *,
        epsilon_hat: bool = False,
        **options: Unpack[Options],
    ) -> None:
        if weight_decay is None:
            raise ValueError(
                "`weight_decay` must be a float >= 0 for AdamW (for none, use "
                "tf_opt.Adam). Received: weight_decay=None"
            )
        super().__init__(
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            amsgrad=amsgrad,
            epsilon_hat=epsilon_hat,
            **common_arguments(locals()),
        )
