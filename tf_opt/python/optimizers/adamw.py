"""AdamW as a Keras optimizer."""

from __future__ import annotations

from typing import Any

import keras

from tf_opt.python.optimizers.adam import Adam
from tf_opt.python.optimizers.fused_optimizer import LearningRate


@keras.saving.register_keras_serializable("tf_opt")
class AdamW(Adam):
    """Adam with decoupled weight decay."""

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
