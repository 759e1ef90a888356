"""Base class of all tf_opt optimizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.keras_internals import Variable
from tf_opt.python.keras_internals import is_overwritten_by_gradient
from tf_opt.python.keras_internals import strategy_of
from tf_opt.python.optimizers.base.catching_up import CatchingUpOptimizer
from tf_opt.python.optimizers.state.memory import memory_of
from tf_opt.python.optimizers.step import frame as frames
from tf_opt.python.optimizers.step import one_by_one
from tf_opt.python.optimizers.step import plan as plans
from tf_opt.python.optimizers.step import replicas
from tf_opt.python.optimizers.step.catch_up import catch_up
from tf_opt.python.optimizers.step.composed import Composed
from tf_opt.python.optimizers.step.launch import launch
from tf_opt.python.optimizers.step.launch import run_quickly
from tf_opt.python.optimizers.step.settings import UNSCALED
from tf_opt.python.optimizers.step.settings import Settings
from tf_opt.python.optimizers.step.settings import clip_bound
from tf_opt.python.optimizers.step.step import Step
from tf_opt.python.optimizers.step.transfer import Transfer
from tf_opt.python.optimizers.step.update_rule import UpdateRule
from tf_opt.python.optimizers.values import gradients
from tf_opt.python.optimizers.values import validation
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.flags import Flag
from tf_opt.python.optimizers.values.gradients import Gradient
from tf_opt.python.optimizers.values.gradients import GradientLike
from tf_opt.python.tensorflow_internals import inside_xla


class FusedOptimizer(CatchingUpOptimizer):
    """Base class: updates all variables of a type in one launch of an op.

    A subclass defines its slots and its rule. This class does the rest.
    """

    # The number of variables that this class' `update_step` has updated.
    _own_updates = 0

    def _rule(self) -> UpdateRule:
        """Returns the rule with the hyperparameters of the next step."""
        return UpdateRule(self._spec, self._hyperparameters())

    def _hyperparameters(self) -> dict[str, Any]:
        """Returns the rule's numbers and modes."""
        names = [each.name for each in self._spec.hyperparameters]
        values = {x: getattr(self, x) for x in (*names, *self._spec.all_modes)}
        return {
            name: access.as_number(x) if isinstance(x, Variable) else x
            for name, x in values.items()
        }

    def _settings(self) -> Settings:
        """Returns the options of the next step."""
        return Settings(
            implementation=self.implementation,
            learning_rate=lambda: self.learning_rate,
            weight_decay=self.weight_decay,
            clipnorm=clip_bound(self.clipnorm),
            clipvalue=clip_bound(self.clipvalue),
            global_clipnorm=clip_bound(self.global_clipnorm),
            use_ema=self.use_ema,
            ema_momentum=self.ema_momentum,
            ema_overwrite_frequency=self.ema_overwrite_frequency,
            gradient_scale=self._gradient_scale(),
            micro_steps=self.gradient_accumulation_steps or 1,
            skip_nonfinite=self.skip_nonfinite,
            track_gradient_norm=self.track_gradient_norm,
            rounding=self._rounding(),
            update_one=self._update_one,
            overrides_update_step=self._overrides_update_step(),
            decoupled_weight_decay=self.decoupled_weight_decay,
            strategy=strategy_of(self),
        )

    def _gradient_scale(self) -> Scalar:
        """Returns the factor of the gradients, for `loss_scale_factor`."""
        factor = self.loss_scale_factor
        if factor is None:
            return UNSCALED
        if isinstance(factor, (keras.Variable, tf.Variable, tf.Tensor)):
            return 1 / access.as_number(factor)
        return 1.0 / factor

    # ---- Results of a step. ----

    @property
    def track_gradient_norm(self) -> bool:
        """Whether each update stores the norm of its gradients.

        An assignment takes effect in eager steps and in functions traced
        afterwards.
        """
        return self._track_gradient_norm

    @track_gradient_norm.setter
    def track_gradient_norm(self, value: bool) -> None:
        self._track_gradient_norm = bool(value)
        if value and self._state is not None:
            self._keep("gradient_norm")

    @property
    def gradient_norm(self) -> tf.Tensor:
        """The norm of all gradients of the last update, before clipping.

        A float64 scalar, 0 before the first update. Requires
        `track_gradient_norm=True` or `global_clipnorm`.
        """
        return self._unsaved.value(
            "gradient_norm", "`track_gradient_norm=True` or `global_clipnorm`"
        )

    @property
    def skipped_steps(self) -> tf.Tensor:
        """The number of skipped steps, an int64 scalar.

        Requires `skip_nonfinite=True` or a `tf_opt.LossScaleOptimizer` around
        this optimizer.
        """
        return self._unsaved.value(
            "skipped_steps", "`skip_nonfinite=True` or a LossScaleOptimizer"
        )

    @property
    def implementation_in_use(self) -> str | None:
        """The implementation of the last step that ran eagerly or was traced.

        `"custom_op"`, `"composed"`, `"custom_op and composed"` if variables of
        different types need both, or None before the first step. After
        `model.fit` it is the implementation that `fit` used.
        """
        if self._plans.last is None:
            return None
        runs_op = {bucket.runs_op for bucket in self._plans.last.buckets}
        names = {"custom_op": True, "composed": False}
        return " and ".join(x for x in names if names[x] in runs_op)

    def memory(self) -> dict[str, dict[str, int]]:
        """Returns how much memory the optimizer takes, on which device.

        Returns:
            Bytes by device and kind, such as
            `{"GPU:0": {"variables": 200}, "CPU:0": {"slots": 800}}`. The kinds
            are `"variables"` (the model's), `"slots"`, `"master_weights"`,
            `"averages"`, `"accumulators"`, `"missed_steps"` (of tables that
            catch up), `"working_copies"` (the variables' copies where
            `state_device` is) and `"other"`. Gradients aren't among them.

        Raises:
            ValueError: If the optimizer isn't built.
        """
        if self._state is None:
            raise ValueError(
                "`memory` is known once the optimizer is built: call "
                "`optimizer.build(variables)` first."
            )
        return memory_of(self._state)

    # ---- A step. ----

    def apply(
        self,
        grads: Sequence[GradientLike | None],
        trainable_variables: Sequence[Variable] | None = None,
    ) -> None:
        """Updates the variables by one step.

        Args:
            grads: Gradients, one for each variable: tensors, `IndexedSlices`,
                values that convert to a tensor, or None.
            trainable_variables: The variables; by default those that the
                optimizer was built with.

        Raises:
            ValueError: If the numbers of gradients and variables differ, a
                gradient's shape doesn't fit its variable's, or
                `trainable_variables` is None before the optimizer is built.
            TypeError: If a gradient doesn't convert to a tensor, or
                `trainable_variables` contains anything but variables.
            RuntimeError: If `implementation="custom_op"` can't run, or the
                averages are swapped in (in a `tf.function`, the latter is a
                `tf.errors.InvalidArgumentError`).
        """
        with self._unless_swapped_in() as may_step:
            self._apply_scaled(grads, trainable_variables, may_step=may_step)

    def _apply_scaled(
        self,
        grads: Sequence[GradientLike | None],
        trainable_variables: Sequence[Variable] | None,
        *,
        may_step: Flag,
        gradient_scale: Scalar | None = None,
    ) -> Flag:
        """Runs a step, perhaps for a `LossScaleOptimizer`.

        Args:
            grads: As in `apply`.
            trainable_variables: As in `apply`.
            may_step: Whether anything may change.
            gradient_scale: The factor of the gradients of a scaled loss. Such a
                step is skipped if a gradient isn't finite. None: the loss isn't
                scaled by a `LossScaleOptimizer`.

        Returns:
            Whether the step counts: False if it was skipped.
        """
        grads = list(grads)
        if not grads or (trainable_variables is None and not self.built):
            # Keras raises an error that explains the problem.
            super().apply(grads, trainable_variables)
            return True
        # A list, because iterating over what TensorFlow tracks is slow.
        variables = list(
            self._trainable_variables
            if trainable_variables is None
            else trainable_variables
        )
        settings = self._settings()
        if gradient_scale is not None:
            settings = settings._replace(
                gradient_scale=gradient_scale, skip_nonfinite=True
            )
        known = (
            self._plans.find(variables, self.implementation)
            if access.eager_without_strategy()
            else None
        )
        if (
            known is not None
            and len(grads) == len(variables)
            and not self._state.working_copies
            and run_quickly(
                frames.StepContext(self._rule(), settings, self._state, known),
                grads,
                variables,
            )
        ):
            self._plans.last = known
            return True
        if known is None and trainable_variables is not None:
            validation.check_variables(variables)
        if len(grads) != len(variables):
            raise ValueError(
                "`grads` must have one gradient for each of the "
                f"{len(variables)} variables. Received: {len(grads)}"
            )
        grads = [
            None if gradient is None else gradients.as_gradient(gradient, x)
            for gradient, x in zip(grads, variables, strict=True)
        ]
        if known is None and trainable_variables is not None:
            access.build_in_first_step(self, variables)
            self._check_variables_are_known(variables)
        replicas.check_variables(variables)
        self._check_outside_of_xla()
        if settings.skip_nonfinite:
            _check_none_is_overwritten(variables)
        with self._name_scope():
            grads, variables = self._to_update(grads, variables)
            if not grads:
                self._state.count(may_step)
                return may_step
            rule = self._rule()
            plan = self._plan_of(rule, settings, grads, variables)
            step = Step(
                frames.StepContext(rule, settings, self._state, plan),
                grads,
                variables,
                may_step,
            )
            return step.run()

    def _check_outside_of_xla(self) -> None:
        """Raises if XLA would compile a step of several devices."""
        if self._state.working_copies and inside_xla():
            option = "shard_state" if self.shard_state else "state_device"
            raise ValueError(
                f"`{option}` needs steps outside of XLA, which compiles for "
                "one device. Compile the model with `jit_compile=False`: on a "
                "machine with a GPU, Keras' default is True. In a custom loop, "
                "only compute gradients inside of "
                "`tf.function(jit_compile=True)`. Received: "
                f"{option}={getattr(self, option)!r}"
            )

    def _plan_of(
        self,
        rule: UpdateRule,
        settings: Settings,
        grads: Sequence[Gradient],
        variables: Sequence[Variable],
    ) -> plans.Plan:
        """Returns the plan of a step, a kept one in eager mode."""
        state = self._state
        are_sparse = plans.may_stay_sparse(settings, state, grads, variables)
        one_by_one = (
            settings.overrides_update_step
            # Without gradients to sum, each copy of each variable is updated.
            or (
                tf.distribute.in_cross_replica_context()
                and not state.working_copies
            )
        )
        keeps = access.eager_without_strategy() and not one_by_one
        mode = self.implementation
        if self._state.since:
            self._check_coasts()
        if are_sparse is not None:
            only_rows_change = plans.other_rows_stay(settings, state)
            mode = (mode, only_rows_change, state.lazy, *are_sparse)
        plan = self._plans.find(variables, mode) if keeps else None
        if plan is None:
            plan = plans.make(
                rule.op,
                settings,
                state,
                variables,
                are_sparse,
                groups=keeps,
                one_by_one=one_by_one,
            )
            if keeps:
                self._plans.keep(variables, mode, plan)
        self._plans.last = plan
        return plan

    # ---- One variable at a time. ----

    def _overrides_update_step(self) -> bool:
        """Returns whether a subclass or a user has replaced `update_step`."""
        update_step = getattr(self.update_step, "__func__", None)
        return update_step is not FusedOptimizer.update_step

    def _update_one(
        self, variable: Variable, gradient: Gradient, learning_rate: Scalar
    ) -> None:
        """Applies weight decay to one variable and calls `update_step`.

        Raises:
            ValueError: If an option changes the variable's rounding, but an
                overridden `update_step` didn't call this class' method.
        """
        settings = self._settings()
        if settings.decays_before_rule:
            one_by_one.decay(settings, self._state, variable, learning_rate)
        before = self._own_updates
        self.update_step(gradient, variable, learning_rate)
        if (
            self._own_updates != before
            or not settings.rounding.changes_storage_of(variable)
        ):
            return
        argument = (
            "master_weights" if self.master_weights else "stochastic_rounding"
        )
        dtype = tf.dtypes.as_dtype(variable.dtype).name
        raise ValueError(
            f"`{argument}` must be False where `update_step` updates a "
            f"variable of {dtype} itself, as {type(self).__name__}'s does with "
            f"`{gradients.path_of(variable)}`. Call `super().update_step` to "
            f"update it. Received: {argument}=True"
        )

    def update_step(
        self,
        gradient: GradientLike,
        variable: Variable,
        learning_rate: Scalar,
    ) -> None:
        """Updates one variable.

        A subclass may override this method, as in Keras. Then each step calls
        it for every variable.

        Args:
            gradient: The variable's gradient.
            variable: A variable that the optimizer was built with.
            learning_rate: The learning rate, a scalar.
        """
        object.__setattr__(self, "_own_updates", self._own_updates + 1)
        rule, settings, state = self._rule(), self._settings(), self._state
        are_sparse = plans.may_stay_sparse(
            settings, state, [gradient], [variable]
        )
        plan = plans.make(rule.op, settings, state, [variable], are_sparse)
        self._plans.last = plan
        context = frames.StepContext(rule, settings, state, plan)
        (bucket,), (own,) = plan.buckets, plan.variables
        factors = frames.factors_of(context, bucket)
        if settings.overrides_update_step:
            # The caller's learning rate includes the multiplier.
            factors = factors._replace(learning_rate=1.0)
        grads = [
            gradients.for_update(
                gradient,
                own,
                variable,
                sparse=bucket.sparse,
                for_op=bucket.runs_op,
            )
        ]
        scalars = rule.scalars(
            learning_rate, frames.update_count(settings, state)
        )
        step = (bucket, grads, frames.Frame(), factors, scalars)
        with Transfer.of_rows(state, [variable]).around():
            if not bucket.runs_op:
                Composed(context).update(*step)
                return
            if bucket.catches_up and not bucket.sparse:
                catch_up(rule, settings, state, [variable])
            launch(context, *step)


def _check_none_is_overwritten(variables: Sequence[Variable]) -> None:
    """Raises if a gradient overwrites its variable, as for float8 scales.

    Keras overwrites such variables before it is known if the step is skipped.
    """
    for variable in variables:
        if is_overwritten_by_gradient(variable):
            raise ValueError(
                "Steps can't be skipped with float8 variables: "
                f"`{gradients.path_of(variable)}` is overwritten with its "
                "gradient. Leave out `skip_nonfinite=True`, and use "
                "keras.optimizers.LossScaleOptimizer in place of "
                "tf_opt.LossScaleOptimizer."
            )
