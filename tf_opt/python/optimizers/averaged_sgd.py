"""AveragedSGD, Polyak's and Ruppert's averaging, as a Keras optimizer."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python import dispatch
from tf_opt.python import ops
from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import averaged_sgd_rule
from tf_opt.python.ops import averaged_sgd as averaged_sgd_op
from tf_opt.python.ops.handles import VariableLike
from tf_opt.python.optimizers import validation
from tf_opt.python.optimizers.arguments import common_arguments
from tf_opt.python.optimizers.docstrings import with_common_arguments
from tf_opt.python.optimizers.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.fused_optimizer import LearningRate
from tf_opt.python.optimizers.fused_optimizer import WeightDecay
from tf_opt.python.optimizers.gradients import Gradient


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

    Training goes on with the variables. To use the average:

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

    _op_name = averaged_sgd_op.OP_NAME

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
        implementation: str = dispatch.AUTO,
    ) -> None:
        validation.check_not_negative("lambd", lambd)
        validation.check_not_negative("alpha", alpha)
        validation.check_not_negative("t0", t0)
        super().__init__(**common_arguments(locals()))
        self.lambd = lambd
        self.alpha = alpha
        self.t0 = t0
        # What the variables were, while the average is in their place.
        self._swapped_out: list[tf.Tensor] | None = None

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Creates the state: averages that equal the variables.

        Args:
            variables: The model variables that will be updated.
        """
        if self.built:
            return
        super().build(variables)
        (self._averages,) = self._add_slots(
            variables, ["average"], copies_of_variables=True
        )
        # In float64: it is made of scalars that are.
        self._eta = self.add_variable((), dtype="float64", name="eta")

    # ---- The average. ----

    def swap_in_average(self) -> None:
        """Puts the average in the variables' place, for use or for saving.

        What the variables were is kept, and `swap_out_average` brings it back.
        To be called outside of `tf.function`; no step may be done in between.

        Raises:
            RuntimeError: If the average is in place already, or the optimizer
                was not built.
        """
        if not self.built:
            raise RuntimeError(
                "There is no average yet: the optimizer has not been built. "
                "Train first, or call `optimizer.build(variables)`."
            )
        if self._swapped_out is not None:
            raise RuntimeError(
                "The average is in the variables' place already; call "
                "`swap_out_average()` first."
            )
        pairs = self._averaged()
        with tf.init_scope():
            self._swapped_out = [tf.identity(v) for v, _ in pairs]
            for variable, average in pairs:
                self.assign(variable, tf.convert_to_tensor(average))

    def swap_out_average(self) -> None:
        """Brings back what `swap_in_average` replaced.

        Raises:
            RuntimeError: If the average is not in the variables' place.
        """
        if self._swapped_out is None:
            raise RuntimeError(
                "The average is not in the variables' place; call "
                "`swap_in_average()` first."
            )
        with tf.init_scope():
            for (variable, _), value in zip(
                self._averaged(), self._swapped_out, strict=True
            ):
                self.assign(variable, value)
        self._swapped_out = None

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
        return self._swapped_out is not None

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

    # ---- A step. ----

    def apply(
        self,
        grads: Sequence[Gradient | None],
        trainable_variables: Sequence[keras.Variable | tf.Variable]
        | None = None,
    ) -> None:
        """Updates the variables, unless the average is in their place.

        Args:
            grads: As in every optimizer.
            trainable_variables: Likewise.

        Raises:
            RuntimeError: If the average is in the variables' place.
        """
        if self._swapped_out is not None:
            raise RuntimeError(
                "The average is in the variables' place: a step would train "
                "it and be lost. Call `swap_out_average()` first."
            )
        super().apply(grads, trainable_variables)

    def _slots(self, index: int) -> list[keras.Variable]:
        return [self._averages[index]]

    def _hyperparameters(self) -> dict[str, Any]:
        return {
            **super()._hyperparameters(),
            "lambd": self.lambd,
            "t0": self.t0,
        }

    def _scalars(self, learning_rate: arithmetic.Scalar) -> dict[str, Any]:
        scalars = super()._scalars(learning_rate)
        scalars["eta"] = tf.where(
            scalars["step"] == 1,
            scalars["learning_rate"],
            tf.convert_to_tensor(self._eta),
        )
        return scalars

    def _finish_step(
        self,
        *,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
        **scalars: tf.Tensor,
    ) -> None:
        eta = averaged_sgd_rule.next_eta(
            step, learning_rate, self.lambd, self.alpha
        )
        self._assign_shared(self._eta, eta)

    def _custom_op_step(
        self,
        variables: Sequence[VariableLike],
        ax: Sequence[VariableLike],
        **arguments: Any,
    ) -> None:
        ops.resource_apply_averaged_sgd(
            variables, ax, **arguments, **self._hyperparameters()
        )

    def _composed_step(
        self, **scalars: tf.Tensor
    ) -> Callable[..., tuple[tf.Tensor, ...]]:
        step = averaged_sgd_rule.averaged_sgd_step(
            **scalars, alpha=self.alpha, **self._hyperparameters()
        )
        return functools.partial(
            averaged_sgd_rule.apply_averaged_sgd_step, step
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, serializable."""
        config = super().get_config()
        config.update({"lambd": self.lambd, "alpha": self.alpha, "t0": self.t0})
        return config
