"""AveragedSGD, Polyak's and Ruppert's averaging, as a Keras optimizer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python import dispatch
from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import averaged_sgd_rule
from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.ops import averaged_sgd as averaged_sgd_op
from tf_opt.python.optimizers import local_state
from tf_opt.python.optimizers import master_weights
from tf_opt.python.optimizers import swapped
from tf_opt.python.optimizers import validation
from tf_opt.python.optimizers.arguments import common_arguments
from tf_opt.python.optimizers.docstrings import with_common_arguments
from tf_opt.python.optimizers.flags import Flag
from tf_opt.python.optimizers.flags import both
from tf_opt.python.optimizers.flags import choose
from tf_opt.python.optimizers.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.fused_optimizer import LearningRate
from tf_opt.python.optimizers.fused_optimizer import WeightDecay
from tf_opt.python.optimizers.gradients import GradientLike
from tf_opt.python.optimizers.rule_function import Update

# The least step size. It is also added to one before its sign is changed, which
# changes no other than 0: that would have no sign.
_TINY = np.finfo(np.float64).tiny


@keras.saving.register_keras_serializable("tf_opt")
@with_common_arguments
class AveragedSGD(FusedOptimizer):
    r"""Stochastic gradient descent that keeps the average of its iterates.

    For a variable $p$ with gradient $g$ and average $ax$, in step $t$ = 1, 2,
    ..., with $\gamma$ = `learning_rate`, $\lambda$ = `lambd` and a step size
    $\eta$ that is $\gamma$ in the first step:

    $$
    \begin{aligned}
    p &\leftarrow p (1 - \lambda \eta) - \eta g \\
    ax &\leftarrow ax + \mu (p - ax), \quad \mu = 1 / \max(1, t - 1 - t_0) \\
    \eta &\leftarrow \gamma / (1 + \lambda \gamma t)^\alpha
    \end{aligned}
    $$

    These are the numbers of `torch.optim.ASGD(foreach=False)` (with
    `decoupled_weight_decay=False`), its `ax` included: up to step `t0 + 2` the
    average is a copy of the variable, from then on the mean of what followed.
    Averages and arithmetic are float32 for float16, bfloat16 and float32
    variables and float64 for float64 ones.

    Training goes on with the variables. To use the average, in whose place no
    step may be done:

    - `with optimizer.averaged_weights(): model.evaluate(...)`;
    - `optimizer.swap_in_average()` and `optimizer.swap_out_average()`;
    - in `model.fit`, `tf_opt.callbacks.SwapAveragedWeights`.

    Args:
        learning_rate: $\gamma$, >= 0: a float, a
            `keras.optimizers.schedules.LearningRateSchedule`, or a callable
            without arguments. It acts on the step size of the next step.
        lambd: How strongly variable and step size decay, >= 0.
        alpha: The power of the step size's decay, >= 0.
        t0: After how many steps averaging begins, >= 0. The default, a
            million, is PyTorch's; for less than that many steps set it.
        {{common_arguments}}

    `lazy_mode=True` is refused: what it leaves out is the average itself.

    Raises:
        ValueError: If an argument is out of range; names it and its value.

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

    _op = averaged_sgd_op.OP

    def __init__(
        self,
        learning_rate: LearningRate = 1e-2,
        *,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
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
        decoupled_weight_decay: bool = True,
        maximize: bool = False,
        learning_rate_multipliers: Mapping[str, float] | None = None,
        weight_decay_multipliers: Mapping[str, float] | None = None,
        skip_nonfinite: bool = False,
        track_gradient_norm: bool = False,
        lazy_mode: bool = False,
        master_weights: bool = False,
        stochastic_rounding: bool = False,
        seed: int | None = None,
        state_dtype: str | tf.DType | None = None,
        implementation: str = dispatch.AUTO,
    ) -> None:
        validation.check_not_negative("lambd", lambd)
        validation.check_not_negative("alpha", alpha)
        validation.check_not_negative("t0", t0, may_be_infinite=True)
        super().__init__(**common_arguments(locals()))
        self.lambd = lambd
        self.alpha = alpha
        self.t0 = t0
        # While the averages are in the variables' place: these and those, where
        # they were rounded.
        self._swapped: (
            list[tuple[tf.Tensor | None, tf.Tensor | None]] | None
        ) = None

    @property
    def lazy_mode(self) -> bool:
        """False: the average is one of all rows in all steps."""
        return False

    @lazy_mode.setter
    def lazy_mode(self, value: bool) -> None:
        validation.check_boolean("lazy_mode", value)
        if value:
            raise ValueError(
                "`lazy_mode` must be False for AveragedSGD: every step shrinks "
                "every row and averages it, whether it occurs or not. For "
                "averages of embedding rows take another optimizer with "
                "`use_ema=True`. Received: lazy_mode=True"
            )

    def _add_state(self, variables: Sequence[keras.Variable]) -> None:
        (self._averages,) = self._add_slots(variables, ["average"])
        # The step size of the next step; 0 before the first, which takes the
        # learning rate. In float64: it is made of scalars that are.
        self._eta = self.add_variable((), dtype="float64", name="eta")

    # ---- The average. ----
    #
    # While it is swapped in, each variable and its average have changed places
    # and `_eta`, never negative by itself, is: so a traced step sees it, and a
    # checkpoint that was saved meanwhile holds all there is.

    def swap_in_average(self) -> None:
        """Puts the average in the variables' place, for use or for saving.

        What the variables were is kept, also in a checkpoint or a saved model,
        and `swap_out_average` brings it back. To be called outside of
        `tf.function`. No step may be done in between: it raises an error
        (composed inside XLA, where nothing can, it does nothing).

        Raises:
            RuntimeError: If the average is in place already, the optimizer was
                not built, or this is in a `tf.function`.
        """
        if not self.built:
            raise RuntimeError(
                "There is no average yet: the optimizer has not been built. "
                "Train first, or call `optimizer.build(variables)`."
            )
        if self.average_is_swapped_in:
            raise RuntimeError(
                "The average is in the variables' place already; call "
                "`swap_out_average()` first."
            )
        has_begun = bool(self._eta.numpy() != 0)
        kept = []
        for variable, average in self._averaged():
            value = tf.convert_to_tensor(variable)
            mean = tf.convert_to_tensor(average) if has_begun else value
            kept.append(
                (
                    swapped.kept(value, tf_variable(average).dtype),
                    swapped.kept(mean, value.dtype),
                )
            )
            self.assign(variable, mean)
            self.assign(average, value)
        self._swapped = kept
        self._eta.assign(-(self._eta + _TINY))

    def swap_out_average(self) -> None:
        """Brings back what `swap_in_average` replaced.

        Where variable and average are of different types, what was in each
        other's place was rounded; after loading a model that was saved with the
        average in place, only that is left.

        Raises:
            RuntimeError: If the average is not in the variables' place.
        """
        if not self.average_is_swapped_in:
            raise RuntimeError(
                "The average is not in the variables' place; call "
                "`swap_in_average()` first."
            )
        pairs = self._averaged()
        kept = self._swapped or [(None, None)] * len(pairs)
        for (variable, average), (value, mean) in zip(pairs, kept, strict=True):
            value = swapped.as_it_was(value, tf.convert_to_tensor(average))
            mean = swapped.as_it_was(mean, tf.convert_to_tensor(variable))
            self.assign(variable, value)
            self.assign(average, mean)
        self._swapped = None
        self._eta.assign(-self._eta - _TINY)

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Within it the variables are the average.

        Example: `with optimizer.averaged_weights(): model.save("best.keras")`.
        """
        self.swap_in_average()
        try:
            yield
        finally:
            self.swap_out_average()

    @property
    def average_is_swapped_in(self) -> bool:
        """Whether the average is in the variables' place."""
        if not tf.executing_eagerly():
            raise RuntimeError(
                "Swapping the average in and out, and asking for it, is for "
                "eager mode: call it outside of `tf.function`."
            )
        return self.built and bool(self._eta.numpy() < 0)

    def _averaged(
        self,
    ) -> list[tuple[keras.Variable | tf.Variable, keras.Variable]]:
        return [
            (variable, average)
            for variable, average in zip(
                self._trainable_variables, self._averages, strict=True
            )
            if average is not None
        ]

    def finalize_variable_values(
        self, var_list: Sequence[keras.Variable | tf.Variable]
    ) -> None:
        """What Keras calls at the end of `fit`: brings the variables back.

        They may be set next, by Keras' moving average or by a callback.

        Args:
            var_list: The model's trainable variables.
        """
        if self.average_is_swapped_in:
            self.swap_out_average()
        super().finalize_variable_values(var_list)

    # ---- A step. ----

    def apply(
        self,
        grads: Sequence[GradientLike | None],
        trainable_variables: Sequence[keras.Variable | tf.Variable]
        | None = None,
    ) -> None:
        """Updates the variables, unless the average is in their place.

        Args:
            grads: As in every optimizer.
            trainable_variables: Likewise.

        Raises:
            RuntimeError: If the average is in the variables' place; in a
                `tf.function` that is a `tf.errors.InvalidArgumentError`.
        """
        refusals = self._refuse_swapped_in() if self.built else []
        with tf.control_dependencies(refusals):
            super().apply(grads, trainable_variables)

    def _refuse_swapped_in(self) -> list[tf.Operation]:
        """Raises, or in a graph returns the operation that will."""
        message = (
            "The average is in the variables' place: a step would train it. "
            "Call `swap_out_average()` first."
        )
        if tf.executing_eagerly():
            if self.average_is_swapped_in:
                raise RuntimeError(message)
            return []
        if "GPU" in self._eta.value.device:
            # There the kernel refuses: nothing is to be taken from the device.
            return []
        eta = tf.convert_to_tensor(self._eta)
        return [tf.debugging.Assert(tf.logical_not(eta < 0), [message])]

    def _begin_step(
        self, variables: Sequence[tf.Variable], commits: Flag
    ) -> None:
        """Until the first step is done, lets averages follow their variables.

        Those may be set after `build`. It is for what this step has no gradient
        of: of the others it makes the average anyway.
        """
        updated = set(map(self._index_of, variables))
        begins = both(commits, tf.convert_to_tensor(self._eta) == 0)
        for index, average in enumerate(self._averages):
            if average is not None and index not in updated:
                value = master_weights.Weight(self, index).value
                value = tf.cast(value, average.dtype)
                local_state.assign(average, choose(begins, value, average))

    def _slots(self, index: int) -> list[keras.Variable]:
        return [self._averages[index]]

    def _hyperparameters(self) -> dict[str, Any]:
        return {
            **super()._hyperparameters(),
            "lambd": self.lambd,
            "t0": self.t0,
        }

    def _scalars(
        self, learning_rate: arithmetic.Scalar, updates: int | tf.Tensor
    ) -> dict[str, Any]:
        scalars = super()._scalars(learning_rate, updates)
        eta = tf.convert_to_tensor(self._eta)
        scalars["eta"] = tf.where(eta == 0, scalars["learning_rate"], eta)
        return scalars

    def _with_learning_rate_factor(
        self, factor: arithmetic.Scalar, scalars: dict[str, Any]
    ) -> dict[str, Any]:
        scaled = super()._with_learning_rate_factor(factor, scalars)
        return {**scaled, "eta": factor * arithmetic.float64(scaled["eta"])}

    def _next_shared(
        self,
        *,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
        eta: tf.Tensor,
        **scalars: tf.Tensor,
    ) -> Sequence[tuple[keras.Variable, tf.Tensor]]:
        following = averaged_sgd_rule.next_eta(
            step, learning_rate, self.lambd, self.alpha
        )
        # Not 0 again, where the learning rate is.
        following = tf.maximum(following, _TINY)
        return [(self._eta, tf.where(eta < 0, eta, following))]

    def _numbers(self, **scalars: Any) -> dict[str, Any]:
        return {**super()._numbers(**scalars), "alpha": self.alpha}

    @staticmethod
    def _rule(*, eta: tf.Tensor, **numbers: Any) -> Update:
        step = averaged_sgd_rule.averaged_sgd_step(eta=eta, **numbers)

        def apply(
            variable: tf.Tensor,
            gradient: tf.Tensor,
            slots: Sequence[tf.Tensor],
            weight_decay: arithmetic.Scalar,
        ) -> tuple[tf.Tensor, ...]:
            result = averaged_sgd_rule.apply_averaged_sgd_step(
                step, variable, gradient, slots, weight_decay
            )
            # XLA can't raise: a step while the average is swapped in leaves
            # all as it is.
            return tuple(
                tf.where(eta < 0, tf.cast(old, new.dtype), new)
                for old, new in zip([variable, *slots], result, strict=False)
            )

        return apply

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, serializable."""
        config = super().get_config()
        config.update({"lambd": self.lambd, "alpha": self.alpha, "t0": self.t0})
        return config
