"""What an optimizer does, in a step and between steps."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from tf_opt.python import keras_internals
from tf_opt.python.functional.arithmetic import Flag, cond
from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers.base import averages
from tf_opt.python.optimizers.base.averages import Swap
from tf_opt.python.optimizers.base.keras_optimizer import KerasOptimizer
from tf_opt.python.optimizers.base.keras_step import KerasStep
from tf_opt.python.optimizers.step import replicas, transfer
from tf_opt.python.optimizers.step.catch_up import bring_up_to_date
from tf_opt.python.optimizers.step.context import StepContext
from tf_opt.python.optimizers.step.eager import repeated_launch, run_quickly
from tf_opt.python.optimizers.step.plan import KeptPlan
from tf_opt.python.optimizers.step.step import Step
from tf_opt.python.optimizers.step.update_rule import UpdateRule
from tf_opt.python.optimizers.values import gradients, validation
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.gradients import GradientLike


class FusedOptimizer(KerasStep, KerasOptimizer):
    """Base class: updates all variables of a type in one launch of an op.

    A subclass has a rule, which `definition.optimizer` gives it, and arguments.
    """

    # While averages are swapped in: their exact values, unless they were
    # loaded in this place.
    _swap: Swap | None = None
    _is_copied = False
    # Set by a callback that leaves the average in place after `fit`.
    _is_swapped_after_fit: Callable[[], bool] = bool

    @property
    def implementation_in_use(self) -> str | None:
        """The implementation of the last step that ran eagerly or was traced.

        `"custom_op"`, `"composed"`, `"custom_op and composed"` if variables
        differ in it, or None before the first step. After `model.fit` it is
        the implementation that `fit` used.
        """
        return " and ".join(sorted(self._plans.in_use, reverse=True)) or None

    def memory(self) -> dict[str, dict[str, int]]:
        """Returns how much memory the optimizer takes, on which device.

        Returns:
            Bytes by device (in a cluster `"/job:ps/task:0/CPU:0"`) and kind,
            such as `{"GPU:0": {"variables": 200}, "CPU:0": {"slots": 800}}`:
            `"variables"` (the model's), `"slots"`, `"master_weights"`,
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
        return self._state.memory()

    # ---- Averages. ----

    def _has_average(self) -> bool:
        """Returns whether there are averages, even if `use_ema` is off now."""
        kept = self._state is not None and bool(self._state.averages)
        return kept or self.use_ema or self._spec.average is not None

    @property
    def average_is_swapped_in(self) -> bool:
        """Whether the averages are in the variables' place."""
        counter = self._iterations if self._has_average() else None
        return averages.are_swapped_in(counter)

    def swap_in_average(self) -> None:
        """Swaps the variables with their averages, for evaluation or saving.

        The averages are the moving averages of `use_ema=True`, or those of
        `AveragedSGD` or `ScheduleFreeAdamW`. The variables' values are kept,
        also in a checkpoint or a saved model, and `swap_out_average` restores
        them. Until then, a step raises an error. (Once traced, the composed
        implementation can't raise errors inside XLA and on a GPU; a step does
        nothing there.)

        Raises:
            RuntimeError: If the optimizer keeps no averages or isn't built, the
                averages are swapped in already, or this is called in a
                `tf.function`.
        """
        if not self._has_average():
            raise RuntimeError(
                "There is no average: the optimizer needs `use_ema=True`. "
                f"Received: {self}"
            )
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
        self._swap = averages.new_swap(self, self._state)
        averages.begin(self, self._state)
        self._swap.swap_in()
        self._iterations.assign(-1 - self._iterations)

    def swap_out_average(self) -> None:
        """Restores the variables that `swap_in_average` replaced.

        If other code has set weights meanwhile, all stay in place, and averages
        start as they are. Otherwise the values are exact, except in a model
        that was loaded in this state: they were rounded to the narrower type of
        variable and average, and `ScheduleFreeAdamW` computes them again.

        Raises:
            RuntimeError: If the averages aren't swapped in.
        """
        if not self.average_is_swapped_in:
            raise RuntimeError(
                "The average is not in the variables' place; call "
                "`swap_in_average()` first."
            )
        (self._swap or averages.new_swap(self, self._state)).swap_out()
        self._swap = None
        self._iterations.assign(-1 - self._iterations)

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Swaps the averages in for the body of a `with` statement.

        If they are in place already, they stay there.

        Example: `with optimizer.averaged_weights(): model.save("best.keras")`.

        Raises:
            RuntimeError: As in `swap_in_average`.
        """
        with contextlib.ExitStack() as stack:
            if not self.average_is_swapped_in:
                self.swap_in_average()
                stack.callback(self.swap_out_average)
            yield

    def _keep_set_weights(self) -> None:
        """Ends a swap if other code has set weights: no file tells that."""
        is_known = self.average_is_swapped_in and self._swap is not None
        if is_known and self._swap.weights_were_set():
            self.swap_out_average()

    def finalize_variable_values(self, var_list: Sequence[Variable]) -> None:
        """Completes the variables; Keras calls this at the end of `fit`.

        All rows catch up. Unless `SwapAveragedWeights` swapped averages in,
        those of `use_ema` overwrite the variables, as in Keras.

        Args:
            var_list: The model's trainable variables. They may be some of the
                optimizer's, or be among another optimizer's.
        """
        if self._state is None:
            return
        if tf.executing_eagerly():
            self._bring_up_to_date()
        weight = self._spec.average_weight
        if self.average_is_swapped_in:
            if not self._is_swapped_after_fit():
                # Inside XLA the steps raised no error.
                raise RuntimeError(
                    "No step ran, because the average is in the variables' "
                    "place. Call `optimizer.swap_out_average()` first, or pass "
                    "`tf_opt.callbacks.SwapAveragedWeights()` to `fit`."
                )
        elif self.use_ema:
            self._overwrite_model_variables_with_average_value(var_list)
        elif weight and not self._is_swapped_after_fit():
            if getattr(self, weight) != 0:
                warnings.warn(
                    f"The model has the weights of {type(self).__name__}'s "
                    "training steps, not their average, which is better. Pass "
                    "`callbacks=[tf_opt.callbacks.SwapAveragedWeights()]` to "
                    "`fit`, or call `optimizer.swap_in_average()`.",
                    stacklevel=3,
                )
        self._is_swapped_after_fit = bool

    # ---- Rows that catch up. ----

    def catch_up(
        self,
        variables: Variable | Sequence[Variable] | None = None,
        rows: Any = None,
    ) -> None:
        """Lets rows of tables catch up with the steps that they missed.

        This is for tables with `lazy_mode="catch_up"`; the rows of other tables
        have nothing to catch up with. Rows that are read after it have the
        values of exact training. A step does it for the rows that it updates.
        `fit` does it for all rows at its end, as does `model.save` for the
        `.keras` format. Before the optimizer is built it does nothing, also
        later in a function that was traced before.

        Args:
            variables: A table or a list of tables; by default all tables that
                catch up.
            rows: The indices of rows, in tensors of integers of any shape
                (`tf.RaggedTensor` and `tf.SparseTensor`, too): a list with one
                for each of `variables`, or one for a single table. By default
                all rows. In replicas, those of all replicas.

        Raises:
            ValueError: If the optimizer was built without a variable, or `rows`
                aren't integers or don't fit `variables`.
            TypeError: If `variables` contains anything but variables.
            tf.errors.InvalidArgumentError: If a table doesn't have a row. On a
                GPU the next call raises it.
        """
        if variables is None and rows is not None:
            raise ValueError(
                "`rows` needs `variables`, the tables that they are of. "
                "Received: variables=None"
            )
        self._reads.add(variables)
        self._bring_up_to_date(variables, rows)

    def _bring_up_to_date(
        self, variables: Any = None, rows: Any = None
    ) -> None:
        """Lets rows catch up, not necessarily because a step reads them."""
        if self._state is None or (variables is None and not self._state.since):
            return
        with keras_internals.without_autocast():
            bring_up_to_date(self._context(), variables, rows)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, serializable."""
        # Keras has no other hook before it saves a model's variables.
        waits = self._state is not None and self._state.since
        if waits and tf.executing_eagerly() and not self._is_copied:
            if keras_internals.is_saving_model():
                self._bring_up_to_date()
        return super().get_config()

    def __reduce__(self) -> Any:
        # Keras saves what it copies or pickles. That must not change the model.
        self._is_copied = True
        try:
            return super().__reduce__()
        finally:
            self._is_copied = False

    # ---- A step. ----

    def _rule(self) -> UpdateRule:
        """Returns the rule with the hyperparameters of the next step."""
        spec = self._state.spec
        return UpdateRule(
            spec,
            {
                name: access.as_number(x) if isinstance(x, Variable) else x
                for name in spec.arguments
                for x in [getattr(self, name)]
            },
            self._state.shared,
        )

    def _context(self, **options: Any) -> StepContext:
        """Returns what the next step reads; see `StepContext`."""
        begins = self._begins_averages
        return StepContext(
            self, self._rule(), self._state, begins_averages=begins, **options
        )

    @property
    def iterations(self) -> Any:
        """The number of steps, or of updates with gradient accumulation."""
        if self.gradient_accumulation_steps:
            return self._steps() // self.gradient_accumulation_steps
        return self._steps()

    def _steps(self) -> Any:
        """Returns the number of steps, those that only accumulate included."""
        if tf.executing_eagerly() and self.average_is_swapped_in:
            return -1 - tf.convert_to_tensor(self._iterations)
        return self._iterations

    def _get_current_learning_rate(self) -> Any:
        # Keras' `learning_rate` calls this.
        by_updates = self.schedule_by == "updates"
        return keras_internals.current_learning_rate(
            self, lambda: self.iterations if by_updates else self._steps()
        )

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
                averages are swapped in (in a `tf.function` that was traced
                before, the latter is a `tf.errors.InvalidArgumentError`).
        """
        with self._unless_swapped_in() as may_step:
            if self._overridden():
                cond(
                    may_step,
                    lambda: self._apply_as_keras(grads, trainable_variables),
                )
            else:
                self._apply_scaled(
                    grads, trainable_variables, may_step=may_step
                )

    def _unless_swapped_in(self) -> AbstractContextManager[Flag]:
        """Returns the context of a step; swapped-in averages forbid it."""
        if not self._has_average():
            return contextlib.nullcontext(True)
        return averages.forbid_step(self._iterations)

    def _runs_quickly(
        self,
        kept: KeptPlan,
        grads: Sequence[Any],
        variables: Sequence[Variable],
        how: Mapping[str, Any],
    ) -> bool:
        """Runs a step by a kept plan, if one launch does all of it."""
        self._plans.in_use = kept.plan.implementations
        launch, changes = kept.launch, self._plans.changes
        if how or launch is None or launch.changes != changes:
            context = self._context(**how)
            context.plan = kept.plan
            launch = None if how else repeated_launch(context, changes)
            if launch is None:
                return run_quickly(context, grads, variables)
            kept.launch = launch
        return launch.run(kept.plan, grads, variables)

    def _apply_scaled(
        self,
        grads: Sequence[GradientLike | None],
        trainable_variables: Sequence[Variable] | None,
        *,
        may_step: Flag,
        **how: Any,
    ) -> Flag:
        """Runs a step if it may; `how` are arguments of `StepContext`.

        Returns whether the step counts: False if it was skipped.
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
        kept = None
        if self.built and access.eager_without_strategy():
            kept = self._plans.find(variables, self.implementation)
        if kept is not None and self._runs_quickly(kept, grads, variables, how):
            return True
        is_new = kept is None and trainable_variables is not None
        if is_new:
            access.check_variables(variables)
        grads = gradients.as_gradients(grads, variables)
        if is_new:
            access.build_in_first_step(self, variables)
            self._check_variables_are_known(variables)
        if access.in_several_replicas():
            access.check_strategy_of(self)
            replicas.check_have_copies(variables)
        if self._state.working_copies:
            transfer.check_outside_of_xla(self)
        with keras_internals.name_scope_of(self):
            context = self._context(**how)
            if self._state.since:
                self._reads.warn_of_others(context, grads, variables)
            if context.skip_nonfinite:
                validation.check_none_is_overwritten(variables)
            grads, variables = keras_internals.overwrite_scales(
                self, grads, variables
            )
            if not grads:
                self._state.count(may_step)
                return may_step
            context.plan = self._plans.of_step(context, grads, variables)
            return Step(context, grads, variables, may_step).run()
