"""Keras' own step, in which an optimizer's rule is `update_step`.

It runs where a subclass or an instance overrides what this step calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tf_opt.python.dispatch import COMPOSED
from tf_opt.python.functional import arithmetic
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.keras_internals import STEP_HOOKS, Variable
from tf_opt.python.optimizers.base import averages
from tf_opt.python.optimizers.base.arguments import is_off
from tf_opt.python.optimizers.step.composed import Composed
from tf_opt.python.optimizers.step.context import Frame
from tf_opt.python.optimizers.step.launch import launch
from tf_opt.python.optimizers.step.update_rule import UpdateRule
from tf_opt.python.optimizers.values import gradients
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.gradients import Gradient, GradientLike

# The options that Keras' step doesn't have.
_LACKS = (
    "learning_rate_multipliers",
    "weight_decay_multipliers",
    "skip_nonfinite",
    "track_gradient_norm",
    "master_weights",
    "stochastic_rounding",
    "state_dtype",
    "state_device",
    "shard_state",
)
# What Keras' `update_step` calls to write variables, and tf_opt's doesn't.
_WRITES = ("assign", "assign_add", "assign_sub")


def hooks_of(cls: type) -> Mapping[str, Any]:
    """Returns what Keras' step calls of a class, by name."""
    return {name: getattr(cls, name, None) for name in STEP_HOOKS}


class KerasStep:
    """Mixin: Keras' own step, in which the rule updates one variable."""

    # What Keras' step calls of the class in tf_opt (see definition.py).
    _hooks: Mapping[str, Any] = {}

    def _overridden(self) -> list[str]:
        """Returns the names of what Keras' step calls that aren't tf_opt's."""
        cls, own = type(self), self._hooks
        names = [k for k, x in own.items() if getattr(cls, k, None) is not x]
        if not vars(self).keys().isdisjoint(own):
            names += [name for name in own if name in vars(self)]
        return names

    def _keep(self, name: str) -> None:
        # Keras' step measures nothing.
        if not self._overridden():
            super()._keep(name)

    def _apply_as_keras(
        self,
        grads: Sequence[GradientLike | None],
        trainable_variables: Sequence[Variable] | None,
    ) -> None:
        """Runs Keras' own step."""
        if trainable_variables is not None:
            access.build_in_first_step(self, trainable_variables)
        if self.built:
            self._check_keras_has_options(self._rule())
        self._plans.in_use = frozenset()
        super().apply(grads, trainable_variables)
        # An own `update_step` needn't call tf_opt's.
        self._plans.in_use = self._plans.in_use or frozenset([COMPOSED])

    def _check_keras_has_options(self, rule: UpdateRule) -> None:
        """Raises a ValueError for an option that Keras' step doesn't have."""
        required = dict.fromkeys(_LACKS, False)
        if self._state.since:
            required["lazy_mode"] = False
        decay = self.weight_decay
        decays = [rule.of(x).decay_and_rate(decay)[0] for x in rule.spec.forms]
        if not all(map(is_off, decays)):
            # Such decay would be part of `update_step`.
            required["decoupled_weight_decay"] = True
            if "decay_in_direction" in rule.spec.modes:
                required["decay_in_direction"] = False
        for name, value in required.items():
            received = getattr(self, name)
            if bool(received) is value:
                continue
            overridden = ", ".join(f"`{x}`" for x in self._overridden())
            expected = value if isinstance(received, bool) else None
            raise ValueError(
                f"`{name}` must be {expected} in Keras' own step, which lacks "
                f"it, and which runs where {type(self).__name__} overrides "
                f"{overridden or '`update_step`'}. Received: "
                f"{name}={received!r}"
            )

    def _backend_update_step(
        self,
        grads: Sequence[Gradient],
        trainable_variables: Sequence[Variable],
        learning_rate: Scalar,
    ) -> None:
        rule, state = self._rule(), self._state
        scalars = rule.scalars(learning_rate, access.as_number(self.iterations))
        dtypes = [x.dtype for x in trainable_variables]
        super()._backend_update_step(
            list(map(gradients.cast, grads, dtypes)),
            trainable_variables,
            learning_rate,
        )
        state.commit(
            rule.next_shared(scalars, state, trainable_variables), True
        )

    def _backend_apply_gradients(
        self, grads: Sequence[Gradient], trainable_variables: Sequence[Variable]
    ) -> None:
        if self.gradient_accumulation_steps:
            # Those of 16-bit variables have sums in float32.
            dtypes = [
                arithmetic.slot_dtype(x.dtype) for x in trainable_variables
            ]
            grads = list(map(gradients.cast, grads, dtypes))
        super()._backend_apply_gradients(grads, trainable_variables)

    def _use_weight_decay(self, variable: Variable) -> bool:
        return not self._state.excluded[self._get_variable_index(variable)]

    def _overwrite_model_variables_with_average_value(
        self, trainable_variables: Sequence[Variable]
    ) -> None:
        averages.overwrite_variables(self._state, trainable_variables)

    def update_step(
        self, gradient: GradientLike, variable: Variable, learning_rate: Scalar
    ) -> None:
        """Updates one variable by the rule, without weight decay.

        A subclass may override this method, as in Keras. Then Keras' own step
        runs, which calls it for every variable; see docs/how-to/subclass.md.

        Args:
            gradient: The variable's gradient.
            variable: A variable that the optimizer was built with.
            learning_rate: The learning rate, a scalar.

        Raises:
            ValueError: If an option is on that Keras' own step doesn't have.
            TypeError: If a subclass overrides `assign`, `assign_add` or
                `assign_sub`, which this method doesn't call.
        """
        for name in self._overridden():
            if name in _WRITES:
                raise TypeError(
                    f"`{type(self).__name__}.{name}` would never be called: "
                    "tf_opt's `update_step` writes variables itself. Override "
                    "`update_step`, too, without calling tf_opt's"
                )
        context = self._context()
        self._check_keras_has_options(context.rule)
        (gradient,) = gradients.as_gradients([gradient], [variable])
        others = self._plans.in_use
        context.plan = self._plans.of_step(context, [gradient], [variable])
        self._plans.in_use |= others
        (bucket,), (updated,) = context.plan.buckets, context.plan.variables
        runs_op = bucket.op is not None
        gradient = gradients.for_update(
            gradient, updated, variable, sparse=bucket.sparse, for_op=runs_op
        )
        updates = access.as_number(self.iterations)
        scalars = context.rule.scalars(learning_rate, updates)
        # Keras' step has applied the decay.
        step = bucket.step(context, [gradient], Frame(), scalars, decays=False)
        with tf.control_dependencies(context.check_numbers()):
            if runs_op:
                launch(context, step)
            else:
                Composed(context).update(step)
