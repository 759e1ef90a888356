"""Adam, with and without AMSGrad, and AdamW as Keras optimizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from typing_extensions import Unpack

from tf_opt.python.functional import adam_rule
from tf_opt.python.ops import optimizer_ops
from tf_opt.python.optimizers.base.configuration import LearningRate
from tf_opt.python.optimizers.base.configuration import Options
from tf_opt.python.optimizers.base.configuration import common_arguments
from tf_opt.python.optimizers.base.configuration import with_common_arguments
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.state.factors import WeightDecay
from tf_opt.python.optimizers.state.optimizer_state import PerVariable
from tf_opt.python.optimizers.step.update_rule import UpdateRule
from tf_opt.python.optimizers.values import validation


class MomentsOptimizer(FusedOptimizer):
    """Base class: keeps the first and second moment of every gradient."""

    def __init__(
        self,
        *,
        beta_1: float,
        beta_2: float,
        epsilon: float,
        **common_arguments: Any,
    ) -> None:
        validation.check_in_unit_interval("beta_1", beta_1)
        validation.check_in_unit_interval("beta_2", beta_2)
        validation.check_not_negative("epsilon", epsilon)
        super().__init__(**common_arguments)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon

    def _add_state(
        self, variables: Sequence[keras.Variable]
    ) -> list[PerVariable]:
        slots = self._add_slots(variables, ["momentum", "velocity"])
        self._momentums, self._velocities = slots
        return slots


@keras.saving.register_keras_serializable("tf_opt")
@with_common_arguments
class Adam(MomentsOptimizer):
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

    Results match PyTorch and Paddle; with `epsilon_hat=True` they match Keras.
    The moments and all arithmetic are float32 for float16, bfloat16 and float32
    variables and float64 for float64 variables. Variables may have any shape.
    Sparse gradients (`tf.IndexedSlices`) give the same result as dense
    gradients; repeated rows are summed. `optimizer.variables` is
    interchangeable with that of `keras.optimizers.Adam(amsgrad=...)`.

    Args:
        {{learning_rate}}
        {{moments}}
        amsgrad: Whether to use the running maximum of the second moments.
        {{common_arguments}}
        epsilon_hat: Whether to add epsilon before the bias correction, as
            Keras and TensorFlow do. The step is then
            $\eta \sqrt{1 - \beta_2^t} / (1 - \beta_1^t)
            \cdot m / (\sqrt{v} + \epsilon)$.

    Raises:
        ValueError: If an argument is out of range.

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> variable = keras.Variable([1.0, 2.0])
    >>> optimizer = tf_opt.Adam(learning_rate=0.1)
    >>> optimizer.apply([tf.constant([0.5, -0.5])], [variable])
    >>> variable.numpy().round(4).tolist()
    [0.8999999761581421, 2.0999999046325684]

    References:
        - [Kingma and Ba, 2015](https://arxiv.org/abs/1412.6980)
        - [Reddi et al., 2018](https://arxiv.org/abs/1904.09237) for AMSGrad;
          the maximum is over uncorrected moments, as in PyTorch and Keras.
    """

    _own_arguments = ("beta_1", "beta_2", "epsilon", "amsgrad", "epsilon_hat")
    _fixed_by_build = ("amsgrad",)

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        amsgrad: bool = False,
        weight_decay: WeightDecay | None = None,
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
        validation.check_boolean("amsgrad", amsgrad)
        validation.check_boolean("epsilon_hat", epsilon_hat)
        super().__init__(
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            **common_arguments(locals()),
        )
        self.amsgrad = bool(amsgrad)
        self.epsilon_hat = bool(epsilon_hat)

    def _add_state(
        self, variables: Sequence[keras.Variable]
    ) -> list[PerVariable]:
        slots = super()._add_state(variables)
        if self.amsgrad:
            slots += self._add_slots(variables, ["velocity_hat"])
            self._velocity_hats = slots[-1]
        return slots

    def _rule(self) -> UpdateRule:
        return UpdateRule(
            optimizer_ops.ADAM,
            adam_rule.adam_update,
            self._hyperparameters("beta_1", "beta_2", "epsilon", "epsilon_hat"),
            # Random rounding would make AMSGrad's maximum grow too much.
            rounded_to_nearest=frozenset({2}),
        )


@keras.saving.register_keras_serializable("tf_opt")
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
