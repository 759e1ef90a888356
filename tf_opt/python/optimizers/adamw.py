"""AdamW as a Keras optimizer."""

from __future__ import annotations

from typing import Any

import keras

from tf_opt.python.optimizers.adam import Adam
from tf_opt.python.optimizers.docstrings import with_common_arguments
from tf_opt.python.optimizers.fused_optimizer import LearningRate


@keras.saving.register_keras_serializable("tf_opt")
@with_common_arguments
class AdamW(Adam):
    r"""Adam with decoupled weight decay, in the same one pass.

    Before the step of `tf_opt.Adam`:

    $$
    p \leftarrow p - \eta \lambda p
    $$

    Args:
        {{learning_rate}}
        {{moments}}
        amsgrad: Whether to keep and use the maximum of the second moments.
        {{common_arguments}}
        epsilon_hat: Where epsilon stands; see `tf_opt.Adam`.

    Raises:
        ValueError: If an argument is out of range, or `weight_decay` is None;
            names it and its value.

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
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        amsgrad: bool = False,
        weight_decay: float = 0.01,
        **kwargs: Any,
    ) -> None:
        if weight_decay is None:
            raise ValueError(
                "`weight_decay` must be a float >= 0 for AdamW (for none, use "
                "tf_opt.Adam). Received: weight_decay=None"
            )
        super().__init__(
            learning_rate,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            amsgrad=amsgrad,
            weight_decay=weight_decay,
            **kwargs,
        )
