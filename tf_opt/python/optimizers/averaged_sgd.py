"""AveragedSGD, Polyak's and Ruppert's averaging, as a Keras optimizer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import Unpack

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import averaged_sgd_rule
from tf_opt.python.keras_internals import Number
from tf_opt.python.optimizers.base.configuration import CommonArguments
from tf_opt.python.optimizers.base.configuration import LearningRate
from tf_opt.python.optimizers.base.definition import optimizer
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.state.optimizer_state import PerVariable
from tf_opt.python.optimizers.state.storage import Weight
from tf_opt.python.optimizers.step.update_rule import Scalars
from tf_opt.python.optimizers.step.update_rule import UpdateRule
from tf_opt.python.optimizers.values import flags
from tf_opt.python.optimizers.values import variables as access

# The least step size.
_TINY = np.finfo(np.float64).tiny


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
    then. Averages and arithmetic are float32 for float16, bfloat16 and float32
    variables and float64 for float64 variables.

    Training always uses the variables themselves. To evaluate or save with the
    averages, swap them in. No step may run while they are swapped in:

    - `with optimizer.averaged_weights(): model.evaluate(...)`;
    - `optimizer.swap_in_average()` and `optimizer.swap_out_average()`;
    - in `model.fit`, `tf_opt.callbacks.SwapAveragedWeights`.

    Args:
        learning_rate: $\gamma$, >= 0: a float, a
            `keras.optimizers.schedules.LearningRateSchedule`, or a callable
            without arguments. It determines the step size of the next step.
        lambd: Strength $\lambda$ of the decay of variable and step size, >= 0.
        alpha: Power $\alpha$ of the step size's decay, >= 0.
        t0: Number of steps before averaging begins, >= 0.

    {{common_arguments}}

    No table can be lazy (`lazy_mode`), because averages cover all rows.

    Raises:
        ValueError: If an argument is out of range.

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
    ) -> None:
        super().__init__(
            learning_rate, lambd=lambd, alpha=alpha, t0=t0, **common
        )

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "lazy_mode" and value:
            super().__setattr__(name, False)
            raise ValueError(
                "`lazy_mode` must be False for AveragedSGD: every step shrinks "
                "every row and averages it, whether it occurs or not. For "
                "averages of embedding rows take another optimizer with "
                f"`use_ema=True`. Received: lazy_mode={value!r}"
            )

    def _add_state(
        self, variables: Sequence[keras.Variable]
    ) -> list[PerVariable]:
        slots = super()._add_state(variables)
        (self._averages,) = slots
        # The step size of the next step; 0 before the first step, which uses
        # the learning rate. It is float64 like the scalars it is computed from.
        self._eta = self.add_variable((), dtype="float64", name="eta")
        return slots

    def _has_average(self) -> bool:
        return True

    def _average_has_begun(self) -> bool:
        return bool(self._eta.numpy() != 0)

    def _averages_of_variables(self) -> PerVariable:
        return self._averages

    def _rule(self) -> UpdateRule:
        return _AveragedSGDRule(
            self._spec,
            self._hyperparameters(),
            eta=self._eta,
        )


@dataclasses.dataclass(frozen=True)
class _AveragedSGDRule(UpdateRule):
    """AveragedSGD's rule with the step size that the last step computed."""

    eta: keras.Variable = None

    @property
    def reads_other_variables(self) -> bool:
        """Whether `begin` reads variables without a gradient."""
        return True

    def begin(
        self,
        state: OptimizerState,
        variables: Sequence[tf.Variable],
        commits: flags.Flag,
    ) -> None:
        """Sets the averages of variables without a gradient in the first step.

        These averages must equal their variables, which may have been assigned
        after `build`. The rule sets the averages of all other variables.
        """
        updated = set(map(state.index_of, variables))
        begins = flags.both(commits, tf.convert_to_tensor(self.eta) == 0)
        (averages,) = state.slots
        for index, average in enumerate(averages):
            if average is not None and index not in updated:
                value = Weight(state, index).value
                value = tf.cast(value, average.dtype)
                access.assign(average, flags.choose(begins, value, average))

    def scalars(
        self, learning_rate: arithmetic.Scalar, updates: int | tf.Tensor
    ) -> Scalars:
        """Adds the step size, which is the learning rate in the first step."""
        scalars = super().scalars(learning_rate, updates)
        eta = tf.convert_to_tensor(self.eta)
        scalars["eta"] = tf.where(eta == 0, scalars["learning_rate"], eta)
        return scalars

    def scaled(self, factor: arithmetic.Scalar, scalars: Scalars) -> Scalars:
        """Multiplies learning rate and step size."""
        scaled = super().scaled(factor, scalars)
        return {**scaled, "eta": factor * arithmetic.float64(scaled["eta"])}

    def next_shared(
        self, scalars: Scalars
    ) -> Sequence[tuple[keras.Variable, tf.Tensor]]:
        """Returns the step size of the next step."""
        following = averaged_sgd_rule.next_eta(
            scalars["step"],
            scalars["learning_rate"],
            self.hyperparameters["lambd"],
            self.hyperparameters["alpha"],
        )
        # 0 would mean that no step has run yet.
        return [(self.eta, tf.maximum(following, _TINY))]
