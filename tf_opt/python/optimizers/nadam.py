"""NAdam as a Keras optimizer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import keras
import tensorflow as tf
from typing_extensions import Unpack

from tf_opt.python import keras_internals
from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import nadam_rule
from tf_opt.python.ops import optimizer_ops
from tf_opt.python.optimizers.adam import MomentsOptimizer
from tf_opt.python.optimizers.base.configuration import LearningRate
from tf_opt.python.optimizers.base.configuration import Options
from tf_opt.python.optimizers.base.configuration import common_arguments
from tf_opt.python.optimizers.base.configuration import with_common_arguments
from tf_opt.python.optimizers.state.factors import WeightDecay
from tf_opt.python.optimizers.state.optimizer_state import PerVariable
from tf_opt.python.optimizers.step.update_rule import Scalars
from tf_opt.python.optimizers.step.update_rule import UpdateRule
from tf_opt.python.optimizers.values import validation
from tf_opt.python.optimizers.values import variables as access


@keras.saving.register_keras_serializable("tf_opt")
@with_common_arguments
class NAdam(MomentsOptimizer):
    r"""NAdam (Adam with Nesterov momentum), in one pass over the model.

    For a variable $p$ with gradient $g$, in step $t$ = 1, 2, ..., with
    $\psi$ = `momentum_decay`:

    $$
    \begin{aligned}
    \mu_t &= \beta_1 (1 - \tfrac{1}{2} 0.96^{t \psi}), \quad
    P \leftarrow P \mu_t \\
    m &\leftarrow \beta_1 m + (1 - \beta_1) g \\
    v &\leftarrow \beta_2 v + (1 - \beta_2) g^2 \\
    p &\leftarrow p - \eta \, \frac{\mu_{t+1} m / (1 - P \mu_{t+1})
        + (1 - \mu_t) g / (1 - P)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}
    \end{aligned}
    $$

    Results match PyTorch and Paddle; with `momentum_decay=1.0` they match
    `keras.optimizers.Nadam`, whose `variables` are interchangeable with those
    of this optimizer. The moments and all arithmetic are float32 for float16,
    bfloat16 and float32 variables and float64 for float64 variables. All
    variables share the scalar $P$, which is float64 if any variable is, and
    float32 otherwise. Sparse gradients (`tf.IndexedSlices`) give the same
    result as dense gradients; repeated rows are summed.

    Args:
        {{learning_rate}}
        {{moments}}
        momentum_decay: Rate at which the momentum grows from half of `beta_1`
            to `beta_1`, >= 0: 0.004 in PyTorch and Paddle, 1 in Keras.
        {{common_arguments}}

    Raises:
        ValueError: If an argument is out of range.

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

    _own_arguments = ("beta_1", "beta_2", "epsilon", "momentum_decay")

    def __init__(
        self,
        learning_rate: LearningRate = 2e-3,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
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
        momentum_decay: float = 4e-3,
        **options: Unpack[Options],
    ) -> None:
        validation.check_not_negative("momentum_decay", momentum_decay)
        if name is None and type(self) is NAdam:
            # Keras would derive `n_adam` from the name of this class.
            name = keras_internals.next_name("Nadam")
        super().__init__(
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            **common_arguments(locals()),
        )
        self.momentum_decay = momentum_decay

    def _add_state(
        self, variables: Sequence[keras.Variable]
    ) -> list[PerVariable]:
        slots = super()._add_state(variables)
        # The name is Keras', so that checkpoints are interchangeable.
        self._u_product = self.add_variable(
            (),
            initializer="ones",
            dtype=arithmetic.widest_real(v.dtype for v in variables).name,
            name="momentum_product",
        )
        return slots

    def _rule(self) -> UpdateRule:
        return _NAdamRule(
            optimizer_ops.NADAM,
            nadam_rule.nadam_update,
            self._hyperparameters(*self._own_arguments),
            momentum_product=self._u_product,
        )


@dataclasses.dataclass(frozen=True)
class _NAdamRule(UpdateRule):
    """NAdam's rule with the product of the momenta."""

    momentum_product: keras.Variable = None

    def scalars(
        self, learning_rate: arithmetic.Scalar, updates: int | tf.Tensor
    ) -> Scalars:
        """Adds the product of the momenta before the step."""
        return {
            **super().scalars(learning_rate, updates),
            "momentum_product": access.as_number(self.momentum_product),
        }

    def next_shared(
        self, scalars: Scalars
    ) -> Sequence[tuple[keras.Variable, tf.Tensor]]:
        """Multiplies the product by the step's momentum."""
        momentum = nadam_rule.momentum(
            scalars["step"],
            self.hyperparameters["beta_1"],
            self.hyperparameters["momentum_decay"],
        )
        product = scalars["momentum_product"] * momentum
        return [(self.momentum_product, product)]
