"""Dynamic loss scaling in the same pass as the inner optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python.functional.arithmetic import choose
from tf_opt.python.functional.checks import require
from tf_opt.python.functional.rule_spec import GREATER_THAN_0
from tf_opt.python.keras_internals import Optimizer, Variable, refuse_lr
from tf_opt.python.optimizers.base import representation, saving
from tf_opt.python.optimizers.base.arguments import KerasArguments
from tf_opt.python.optimizers.base.forwarding import Forwarding
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.values import validation
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.gradients import GradientLike
from tf_opt.python.tensorflow_internals import explains_later_traces

# Arguments of Keras' optimizers that belong to the inner optimizer. The loss is
# scaled here.
_OF_INNER = {*KerasArguments.__annotations__} - {"name", "loss_scale_factor"}


@keras.saving.register_keras_serializable("tf_opt")
class LossScaleOptimizer(Forwarding, keras.optimizers.LossScaleOptimizer):
    r"""Scales the loss so that 16-bit gradients don't vanish, in one pass.

    It has the same state and results as `keras.optimizers.LossScaleOptimizer`.
    The loss is multiplied by a scale $s$, and the gradients by $1 / s$. If a
    gradient contains an infinity or a NaN, the step is skipped and the scale is
    halved; `inner_optimizer.skipped_steps` counts these steps. After
    `dynamic_growth_steps` finite steps in a row the scale is doubled.

    Unscaling and skipping are part of the inner optimizer's pass over memory.
    Under a `tf.distribute` strategy the sum over replicas must be finite, so
    all replicas agree. All public attributes of the inner optimizer, such as
    `weight_decay` or `gradient_norm`, can be read and set here, too, except
    `name` and `loss_scale_factor`. `model.compile` doesn't wrap this optimizer
    again under `mixed_float16`.

    Args:
        inner_optimizer: The optimizer that updates the variables. Around an
            optimizer that isn't tf_opt's, this class works like Keras'.
        initial_scale: The first scale, > 0.
        dynamic_growth_steps: The number of finite steps before the scale
            doubles.
        name: The optimizer's name.

    Raises:
        ValueError: If an argument is out of range.
        TypeError: If `inner_optimizer` isn't an optimizer.

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
        inner_optimizer: Optimizer,
        initial_scale: float = 2.0**15,
        dynamic_growth_steps: int = 2000,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(inner_optimizer, dict):
            # That of `get_config`.
            inner_optimizer = keras.saving.deserialize_keras_object(
                inner_optimizer
            )
        if not isinstance(inner_optimizer, keras.optimizers.Optimizer):
            raise TypeError(
                "`inner_optimizer` must be an optimizer. Received: "
                f"{inner_optimizer!r}"
            )
        validation.check_fixed_number(
            "initial_scale", initial_scale, GREATER_THAN_0
        )
        validation.check_positive_integer(
            "dynamic_growth_steps", dynamic_growth_steps
        )
        # Keras' configurations contain further arguments.
        super().__init__(
            inner_optimizer,
            initial_scale=initial_scale,
            dynamic_growth_steps=dynamic_growth_steps,
            name=name,
            **kwargs,
        )
        # Keras' constructor has made attributes of them.
        for name in _OF_INNER:
            del vars(self)[name]

    def __repr__(self) -> str:
        return representation.of_optimizer(self)

    def __setattr__(self, name: str, value: Any) -> None:
        refuse_lr(self, name, value)
        if name == "loss_scale_factor":
            allowed = "None, as the loss is scaled by `dynamic_scale`"
            require(value is None, name, value, allowed)
        super().__setattr__(name, value)

    @property
    def implementation_in_use(self) -> str | None:
        """`implementation_in_use` of the inner optimizer, or None."""
        return getattr(self.inner_optimizer, "implementation_in_use", None)

    def memory(self) -> dict[str, dict[str, int]]:
        """Returns `memory` of the inner optimizer, which must be tf_opt's."""
        return self.inner_optimizer.memory()

    def catch_up(
        self,
        variables: Sequence[Variable] | None = None,
        rows: Sequence[tf.Tensor] | None = None,
    ) -> None:
        """Calls `catch_up` of the inner optimizer, if it has that."""
        if isinstance(self.inner_optimizer, FusedOptimizer):
            self.inner_optimizer.catch_up(variables, rows)

    def build(self, var_list: Sequence[Variable]) -> None:
        """Creates the state; the inner optimizer counts skipped steps."""
        if isinstance(self.inner_optimizer, FusedOptimizer):
            # It may raise an error, before this class creates any variables.
            self.inner_optimizer.build(var_list)
            self.inner_optimizer._keep("skipped_steps")
        # Keras' `build` would create the state of these here, too.
        off = {"use_ema": False, "gradient_accumulation_steps": None}
        vars(self).update(off)
        try:
            with explains_later_traces():
                super().build(var_list)
        finally:
            for name in off:
                del vars(self)[name]

    def exclude_from_weight_decay(
        self,
        var_list: Sequence[Variable] | None = None,
        var_names: Sequence[str] | None = None,
    ) -> None:
        """Calls `exclude_from_weight_decay` of the inner optimizer."""
        self.inner_optimizer.exclude_from_weight_decay(var_list, var_names)

    def save_own_variables(self, store: Any) -> None:
        """Saves the variables, in the format of the inner optimizer."""
        if isinstance(self.inner_optimizer, FusedOptimizer):
            self.inner_optimizer._keep_set_weights()
        saving.save(self.variables, self._separate_keys(), store)

    def load_own_variables(self, store: Any) -> None:
        """Loads the variables that `save_own_variables` saved."""
        store = saving.adapt(self.variables, self._separate_keys(), store)
        super().load_own_variables(store)

    def _separate_keys(self) -> dict[int, str]:
        state = getattr(self.inner_optimizer, "_state", None)
        return saving.separate_keys(state)

    def apply(
        self,
        grads: Sequence[GradientLike | None],
        trainable_variables: Sequence[Variable] | None = None,
    ) -> None:
        """Updates the variables, if all gradients are finite.

        Arguments and errors are those of `tf_opt.Adam.apply`; `grads` are the
        gradients of the scaled loss.
        """
        if not self.built and trainable_variables is None:
            raise ValueError(
                "`apply` needs `trainable_variables` before the optimizer is "
                "built: pass them, or call "
                "`optimizer.build(trainable_variables)` first."
            )
        inner = self.inner_optimizer
        own = getattr(inner.apply, "__func__", None)
        if own is not FusedOptimizer.apply or inner._overridden():
            # Keras' optimizer, or a subclass whose step does more.
            super().apply(grads, trainable_variables)
            return
        access.build_in_first_step(self, trainable_variables)
        # Read both before the step: replicas may share these variables, and
        # one replica must not read the values that another one has assigned.
        scale = tf.convert_to_tensor(self.dynamic_scale)
        finite_steps = tf.convert_to_tensor(self.step_counter)
        with inner._unless_swapped_in() as may_step:
            finite = inner._apply_scaled(
                grads,
                trainable_variables,
                may_step=may_step,
                gradient_scale=1 / tf.cast(scale, tf.float64),
            )
            grows = tf.equal(finite_steps, self.dynamic_growth_steps - 1)
            factor = tf.where(finite, tf.where(grows, 2.0, 1.0), 0.5)
            # The count begins again when the scale changes.
            following = tf.where(tf.equal(factor, 1), finite_steps + 1, 0)
            # Nothing changes while the averages are swapped in.
            scale = choose(may_step, scale * factor, scale)
            following = choose(may_step, following, finite_steps)
            access.assign(self.dynamic_scale, scale)
            access.assign(self.step_counter, following)
