"""Dynamic loss scaling in the pass of the inner optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers import accumulated_rows
from tf_opt.python.optimizers import local_state
from tf_opt.python.optimizers import saved_master_weights
from tf_opt.python.optimizers import validation
from tf_opt.python.optimizers.flags import choose
from tf_opt.python.optimizers.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.gradients import GradientLike


@keras.saving.register_keras_serializable("tf_opt")
class LossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    r"""Scales the loss so that 16-bit gradients don't vanish: in one pass.

    It does what `keras.optimizers.LossScaleOptimizer` does, with its state and
    its numbers. The loss is multiplied by a scale $s$, and the gradients by
    $1 / s$. A step whose gradients hold an infinity or NaN is skipped, and the
    scale halved; after `dynamic_growth_steps` finite steps in a row it is
    doubled. Here unscaling is part of the inner optimizer's own pass, a skipped
    step is a flag that this pass reads, and there is no condition around it;
    under a `tf.distribute` strategy the sum over replicas is what must be
    finite, so that all replicas agree.

    `model.compile` under the policy `mixed_float16` leaves it as it is.

    Args:
        inner_optimizer: The optimizer that does the steps. With one that is
            not tf_opt's, this is Keras' optimizer.
        initial_scale: The first scale, > 0.
        dynamic_growth_steps: After how many finite steps the scale doubles.
        name: The optimizer's name.

    Raises:
        ValueError: If an argument is out of range; names it and its value.
        TypeError: If `inner_optimizer` is no optimizer.

    Example:

    >>> import keras, tensorflow as tf, tf_opt
    >>> variable = keras.Variable([1.0, 2.0])
    >>> optimizer = tf_opt.LossScaleOptimizer(tf_opt.Adam(0.1), 4.0)
    >>> optimizer.apply([tf.constant([2.0, float("inf")])], [variable])
    >>> variable.numpy().tolist(), float(optimizer.dynamic_scale)
    ([1.0, 2.0], 2.0)

    References:
        - [Micikevicius et al., 2018](https://arxiv.org/abs/1710.03740)
    """

    def __init__(
        self,
        inner_optimizer: keras.optimizers.Optimizer,
        initial_scale: float = 2.0**15,
        dynamic_growth_steps: int = 2000,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(inner_optimizer, keras.optimizers.Optimizer):
            raise TypeError(
                "`inner_optimizer` must be an optimizer. Received: "
                f"{inner_optimizer!r}"
            )
        validation.check_positive_number("initial_scale", initial_scale)
        validation.check_positive_integer(
            "dynamic_growth_steps", dynamic_growth_steps
        )
        # What Keras takes besides, its own configurations have.
        super().__init__(
            inner_optimizer,
            initial_scale=initial_scale,
            dynamic_growth_steps=dynamic_growth_steps,
            name=name,
            **kwargs,
        )

    @property
    def implementation_in_use(self) -> str | None:
        """What the inner optimizer's last step ran; None if that isn't ours."""
        return getattr(self.inner_optimizer, "implementation_in_use", None)

    def save_own_variables(self, store: Any) -> None:
        """Saves the variables, as the inner optimizer would its own.

        Args:
            store: Where to.
        """
        if isinstance(self.inner_optimizer, FusedOptimizer):
            saved_master_weights.save(self, self.inner_optimizer, store)
        else:
            super().save_own_variables(store)

    def load_own_variables(self, store: Any) -> None:
        """Loads what `save_own_variables` has saved.

        Args:
            store: Where it was saved.
        """
        if isinstance(self.inner_optimizer, FusedOptimizer):
            store = saved_master_weights.adapt(
                self, self.inner_optimizer, store
            )
            accumulated_rows.forget(self.inner_optimizer)
        super().load_own_variables(store)

    def apply(
        self,
        grads: Sequence[GradientLike | None],
        trainable_variables: Sequence[Variable] | None = None,
    ) -> None:
        """Updates the variables, unless a gradient isn't finite.

        Args:
            grads: Gradients of the scaled loss.
            trainable_variables: The variables; by default those that the
                optimizer was built with.

        Raises:
            RuntimeError: If the inner optimizer's average is in the variables'
                place; in a `tf.function` that is a
                `tf.errors.InvalidArgumentError`.
        """
        if not isinstance(self.inner_optimizer, FusedOptimizer):
            super().apply(grads, trainable_variables)
            return
        if not self.built and trainable_variables is not None:
            with keras.name_scope(self.name, caller=self):
                self.build(list(trainable_variables))
        # Both before the step: replicas that share them must not read what
        # one of them has assigned.
        scale = tf.convert_to_tensor(self.dynamic_scale)
        finite_steps = tf.convert_to_tensor(self.step_counter)
        with self.inner_optimizer._unless_swapped_in() as may_step:
            finite = self.inner_optimizer._apply(
                grads,
                trainable_variables,
                gradient_scale=1 / tf.cast(scale, tf.float64),
                skips_nonfinite=True,
                may_step=may_step,
            )
            grows = tf.equal(finite_steps, self.dynamic_growth_steps - 1)
            factor = tf.where(finite, tf.where(grows, 2.0, 1.0), 0.5)
            restarts = tf.logical_or(grows, tf.logical_not(finite))
            following = tf.where(
                restarts, tf.zeros_like(finite_steps), finite_steps + 1
            )
            # A step that isn't one, as the average is in place, isn't counted.
            local_state.assign(
                self.dynamic_scale, choose(may_step, scale * factor, scale)
            )
            local_state.assign(
                self.step_counter, choose(may_step, following, finite_steps)
            )
