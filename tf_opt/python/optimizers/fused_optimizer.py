"""What every tf_opt optimizer shares: slots, decay, and how a step is run."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python import dispatch
from tf_opt.python.functional import arithmetic
from tf_opt.python.keras_internals import MOVING_AVERAGE
from tf_opt.python.keras_internals import KerasOptimizer
from tf_opt.python.keras_internals import Variable
from tf_opt.python.keras_internals import is_overwritten_by_gradient
from tf_opt.python.keras_internals import layout_of
from tf_opt.python.keras_internals import strategy_of
from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.ops.resource_apply import ResourceApplyOp
from tf_opt.python.ops.step_frame import BARE
from tf_opt.python.optimizers import accumulated_rows
from tf_opt.python.optimizers import composed_step
from tf_opt.python.optimizers import eager_step
from tf_opt.python.optimizers import gradients
from tf_opt.python.optimizers import local_state
from tf_opt.python.optimizers import master_weights
from tf_opt.python.optimizers import multipliers
from tf_opt.python.optimizers import rounding
from tf_opt.python.optimizers import saved_master_weights
from tf_opt.python.optimizers import step
from tf_opt.python.optimizers import step_plan
from tf_opt.python.optimizers import validation
from tf_opt.python.optimizers.exclusions import Exclusions
from tf_opt.python.optimizers.flags import Flag
from tf_opt.python.optimizers.flags import choose
from tf_opt.python.optimizers.flags import is_zero
from tf_opt.python.optimizers.gradients import Gradient
from tf_opt.python.optimizers.gradients import GradientLike
from tf_opt.python.optimizers.gradients import path_of
from tf_opt.python.optimizers.rule_function import Update
from tf_opt.python.optimizers.step_plan import Bucket
from tf_opt.python.optimizers.step_plan import PlanKeeper
from tf_opt.python.optimizers.unlisted_state import UnlistedState

LearningRate = (
    float | keras.optimizers.schedules.LearningRateSchedule | Callable
)

# A number, or a variable that may be assigned to between steps.
WeightDecay = float | Variable


class FusedOptimizer(KerasOptimizer):
    """Base class: one launch of a custom op for all variables of a type.

    A subclass names its op and its slots and says how to run a step of each
    implementation; everything else of Keras' base class works unchanged.
    """

    # The custom op.
    _op: ResourceApplyOp
    # Slots that don't move by small steps: as 16-bit floats they are not
    # rounded at random.
    _slots_rounded_to_nearest: frozenset[int] = frozenset()

    def __init__(
        self,
        learning_rate: LearningRate,
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
        validation.check_learning_rate(learning_rate)
        validation.check_weight_decay(weight_decay)
        validation.check_boolean(
            "decoupled_weight_decay", decoupled_weight_decay
        )
        validation.check_boolean("maximize", maximize)
        validation.check_boolean("skip_nonfinite", skip_nonfinite)
        validation.check_boolean("track_gradient_norm", track_gradient_norm)
        validation.check_boolean("master_weights", master_weights)
        validation.check_boolean("stochastic_rounding", stochastic_rounding)
        if master_weights and stochastic_rounding:
            raise ValueError(
                "`stochastic_rounding` must be False with `master_weights`, "
                "of which rounding loses nothing. Received: "
                "master_weights=True, stochastic_rounding=True"
            )
        state_dtype = rounding.standard_state_dtype(state_dtype)
        seed = rounding.seed_for(
            seed,
            stochastic_rounding=stochastic_rounding,
            state_dtype=state_dtype,
        )
        validation.check_one_of(
            "implementation", implementation, dispatch.IMPLEMENTATIONS
        )
        super().__init__(
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            clipnorm=clipnorm,
            clipvalue=clipvalue,
            global_clipnorm=global_clipnorm,
            use_ema=use_ema,
            ema_momentum=ema_momentum,
            ema_overwrite_frequency=ema_overwrite_frequency,
            loss_scale_factor=loss_scale_factor,
            gradient_accumulation_steps=gradient_accumulation_steps,
            name=name,
        )
        self.decoupled_weight_decay = bool(decoupled_weight_decay)
        self.maximize = bool(maximize)
        self.skip_nonfinite = bool(skip_nonfinite)
        self.track_gradient_norm = bool(track_gradient_norm)
        self.master_weights = bool(master_weights)
        self.stochastic_rounding = bool(stochastic_rounding)
        self.seed = seed
        self.state_dtype = state_dtype
        self.implementation = implementation
        self._unlisted = UnlistedState()
        self.lazy_mode = lazy_mode
        self.learning_rate_multipliers = learning_rate_multipliers
        self.weight_decay_multipliers = weight_decay_multipliers
        self._plans = PlanKeeper()
        self._exclusions = Exclusions()

    # ---- What a subclass says. ----

    # Whether the rule takes each slot whole, as `_read_slots` does here.
    _takes_whole_slots = True

    @abc.abstractmethod
    def _slots(self, index: int) -> list[keras.Variable]:
        """The slots of the variable with this index, in the rule's order."""

    @staticmethod
    @abc.abstractmethod
    def _rule(**numbers: Any) -> Update:
        """The functional rule: computes what is a step's, returns the rest.

        Args:
            **numbers: What `_numbers` returns; of no other state may it be.
        """

    def _hyperparameters(self) -> dict[str, Any]:
        """What the rule takes besides a step's scalars."""
        return {
            "decoupled_weight_decay": self.decoupled_weight_decay,
            "maximize": self.maximize,
        }

    def _scalars(
        self, learning_rate: arithmetic.Scalar, updates: int | tf.Tensor
    ) -> dict[str, Any]:
        """What a step goes by, before which there were so many updates."""
        return {
            "step": updates + 1,
            "learning_rate": local_state.number(learning_rate),
        }

    def _numbers(self, **scalars: Any) -> dict[str, Any]:
        """What the functional rule takes, a step's scalars among it."""
        return {**self._hyperparameters(), **scalars}

    def _with_learning_rate_factor(
        self, factor: arithmetic.Scalar, scalars: dict[str, Any]
    ) -> dict[str, Any]:
        """The scalars of a variable whose learning rate is another."""
        learning_rate = factor * arithmetic.float64(scalars["learning_rate"])
        return {**scalars, "learning_rate": learning_rate}

    def _begin_step(
        self, variables: Sequence[tf.Variable], commits: Flag
    ) -> None:
        """Does what a step does before it, if it is to be one."""

    def _next_shared(
        self, **scalars: tf.Tensor
    ) -> Sequence[tuple[keras.Variable, tf.Tensor]]:
        """What all variables share, besides `iterations`, after a step.

        That is each variable with its next value.
        """
        return ()

    @abc.abstractmethod
    def _add_state(self, variables: Sequence[keras.Variable]) -> None:
        """Adds the rule's slots, and what all variables share."""

    def _read_slots(
        self,
        slots: Sequence[keras.Variable],
        rows: tf.Tensor | None = None,
        **scalars: tf.Tensor,
    ) -> list[tf.Tensor]:
        """The slots of one variable as the functional rule takes them.

        Args:
            slots: The slots.
            rows: Which rows of the variable are updated; None: all of it.
            **scalars: A step's scalars.
        """
        if rows is None:
            return list(map(local_state.value_of, slots))
        return [tf.gather(tf_variable(slot), rows) for slot in slots]

    def _write_slots(
        self,
        slots: Sequence[keras.Variable],
        values: Sequence[tf.Tensor],
        rows: tf.Tensor | None = None,
        **scalars: tf.Tensor,
    ) -> None:
        """Assigns what the functional rule made of them."""
        for slot, value in zip(slots, values, strict=True):
            if rows is None:
                local_state.assign(slot, value)
            else:
                local_state.assign_rows(slot, rows, value)

    # ---- Building. ----

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Creates the state for these variables, in the order of Keras'.

        Args:
            variables: The model variables that will be updated.
        """
        if self.built:
            return
        super().build(variables)
        self._plans.clear()
        self._exclude_what_was_saved(variables)
        with strategy_of(self).scope():
            self._unlisted.build(
                track_gradient_norm=self._keeps_gradient_norm(),
                skip_nonfinite=self.skip_nonfinite,
            )
        self._make_lists_of_rows()
        for name in multipliers.NAMES:
            self._set_multipliers(name, getattr(self, name))
        self._add_state(variables)
        if self.master_weights:
            self._masters = master_weights.add(self, variables)

    def save_own_variables(self, store: Any) -> None:
        """Saves the variables; master weights by keys of their own.

        Args:
            store: Where to.
        """
        saved_master_weights.save(self, self, store)

    def load_own_variables(self, store: Any) -> None:
        """Loads what `save_own_variables` has saved.

        Args:
            store: Where it was saved.
        """
        super().load_own_variables(
            saved_master_weights.adapt(self, self, store)
        )
        accumulated_rows.forget(self)

    def _lookup_dependency(
        self, name: str, cached_dependencies: Any = None
    ) -> Any:
        # What TensorFlow asks of an object; with what it has when it restores
        # the object's variables.
        if cached_dependencies is not None:
            accumulated_rows.forget(self)
        return super()._lookup_dependency(name, cached_dependencies)

    def _add_slots(
        self,
        variables: Sequence[keras.Variable],
        names: Sequence[str],
        *,
        rows: Mapping[str, int] = {},
        exact: Collection[str] = (),
    ) -> tuple[list[keras.Variable | None], ...]:
        """Adds one slot of each name for each variable, a variable at a time.

        That is the order and these are the names that Keras gives them, but
        the type is that of the state, not the variable's.

        Args:
            variables: The variables.
            names: The slots' names.
            rows: By name, how many of the variable's shape a slot holds, if it
                is a table of them.
            exact: The names of those that are in the arithmetic's type.

        Returns:
            For each name, its slots in the order of `variables`; None for a
            variable that has none.
        """
        slots = tuple([] for _ in names)
        for variable in variables:
            state_dtype = rounding.state_dtype_of(self, variable)
            for slot, name in zip(slots, names, strict=True):
                # Keras writes such a variable's gradient straight into it.
                if is_overwritten_by_gradient(variable):
                    slot.append(None)
                else:
                    dtype = None if name in exact else state_dtype
                    slot.append(
                        self._add_slot(
                            variable, name, rows.get(name), dtype=dtype
                        )
                    )
        return slots

    def add_variable_from_reference(
        self,
        reference_variable: Variable,
        name: str | None = None,
        initializer: Any = "zeros",
    ) -> keras.Variable:
        """Adds a variable of another's shape, in the type of the arithmetic.

        As Keras', whose variable has the other's type: a sum of 16-bit numbers
        would lose what is added to it. (An average is in the state's type.)

        Args:
            reference_variable: The other variable.
            name: What its name ends with.
            initializer: What it begins as.
        """
        dtype = None
        if name == MOVING_AVERAGE:
            dtype = rounding.state_dtype_of(self, reference_variable)
        return self._add_slot(
            reference_variable, name or "var", None, initializer, dtype=dtype
        )

    def _add_slot(
        self,
        variable: Variable,
        name: str,
        rows: int | None,
        initializer: Any = "zeros",
        *,
        dtype: tf.DType | None = None,
    ) -> keras.Variable:
        dtype = dtype or arithmetic.slot_dtype(variable.dtype)
        prefix = getattr(variable, "path", variable.name)
        prefix = prefix.replace("/", "_").replace(":", "_")
        with self._beside(tf_variable(variable)):
            return self.add_variable(
                shape=(*(() if rows is None else (rows,)), *variable.shape),
                initializer=initializer,
                dtype=dtype.name,
                layout=layout_of(variable),
                name=f"{prefix}_{name}",
            )

    @contextlib.contextmanager
    def _beside(self, variable: tf.Variable) -> Iterator[None]:
        """Where new variables are on the device of another."""
        with contextlib.ExitStack() as stack:
            if not local_state.has_copies(variable):
                # Colocation alone ends where a variable is lifted out of the
                # step that is being traced, as in `fit`.
                stack.enter_context(tf.device(variable.device))
            # It knows the devices of a strategy, parameter servers' among them.
            extended = strategy_of(self).extended
            stack.enter_context(extended.colocate_vars_with(variable))
            yield

    # ---- Weight decay: part of the rule, so not a pass of its own. ----

    def _decays_before_the_step(self) -> bool:
        # Of a rule that isn't ours; `_weight_decay` hands it to those that are.
        return self.decoupled_weight_decay and self._overrides_update_step()

    def _decay(self, variables: Sequence[tf.Variable]) -> None:
        plain = []
        for variable in variables:
            if master_weights.is_precise(self, variable):
                master_weights.decay(self, variable)
            else:
                plain.append(variable)
        super()._decay(plain)

    def exclude_from_weight_decay(
        self,
        var_list: Sequence[keras.Variable] | None = None,
        var_names: Sequence[str] | None = None,
    ) -> None:
        """Excludes variables from weight decay, and remembers it on saving.

        Args:
            var_list: Variables to exclude.
            var_names: Strings, taken as regular expressions: a variable in
                whose name one of them is found is excluded.
        """
        super().exclude_from_weight_decay(
            var_list=var_list, var_names=var_names
        )
        # They say what decays.
        self._plans.clear()
        self._exclusions = Exclusions(
            var_names=tuple(sorted(set(var_names or ()))),
            paths=tuple(sorted(map(path_of, var_list or ()))),
        )

    def _exclude_what_was_saved(
        self, variables: Sequence[keras.Variable]
    ) -> None:
        """Tells Keras which variables a loaded optimizer leaves out."""
        if not self._excluded_positions():
            self._exclude_variables(self._exclusions.find(variables))
        self._exclusions = Exclusions.of(
            self._exclusions.var_names, variables, self._excluded_positions()
        )

    def _weight_decay(self, bucket: Bucket) -> float | list[float] | tf.Tensor:
        """The decay of each variable, of which some have none, or of all."""
        if self._decays_before_the_step():
            return 0.0
        decay = self.weight_decay
        factors = self._unlisted.multipliers(
            "weight_decay_multipliers", bucket.indices
        )
        if factors is not None or isinstance(
            decay, (keras.Variable, tf.Variable, tf.Tensor)
        ):
            decay = arithmetic.float64(0.0 if decay is None else decay)
            decays = decay * tf.constant(bucket.decays, tf.float64)
            return decays if factors is None else decays * factors
        decay = float(decay or 0.0)
        if all(bucket.decays):
            return decay
        return [decay if applies else 0.0 for applies in bucket.decays]

    # ---- Factors for single variables. ----

    @property
    def learning_rate_multipliers(self) -> dict[str, float] | None:
        """Factors of the learning rate by regular expression, or None.

        What is assigned takes effect in the next step, also of a step that was
        traced with others; but where there were none before, only in what is
        traced afterwards.
        """
        return self._learning_rate_multipliers

    @learning_rate_multipliers.setter
    def learning_rate_multipliers(
        self, value: Mapping[str, float] | None
    ) -> None:
        self._set_multipliers("learning_rate_multipliers", value)

    @property
    def weight_decay_multipliers(self) -> dict[str, float] | None:
        """Factors of the weight decay, likewise."""
        return self._weight_decay_multipliers

    @weight_decay_multipliers.setter
    def weight_decay_multipliers(
        self, value: Mapping[str, float] | None
    ) -> None:
        self._set_multipliers("weight_decay_multipliers", value)

    def _set_multipliers(
        self, name: str, value: Mapping[str, float] | None
    ) -> None:
        value = multipliers.check(name, value)
        if self.built:
            with strategy_of(self).scope():
                self._unlisted.set_multipliers(
                    name,
                    None
                    if value is None
                    else multipliers.factors(
                        name, value, self._trainable_variables
                    ),
                    len(self._trainable_variables),
                )
        # A plain dictionary: Keras would wrap what it is given.
        object.__setattr__(self, f"_{name}", value)

    def _learning_rate_factors(self, bucket: Bucket) -> float | tf.Tensor:
        factors = self._unlisted.multipliers(
            "learning_rate_multipliers", bucket.indices
        )
        return 1.0 if factors is None else factors

    def _learning_rates_of(
        self, variables: Sequence[tf.Variable]
    ) -> list[arithmetic.Scalar]:
        """What `update_step` is given; our own knows the factors itself."""
        learning_rates = [self.learning_rate] * len(variables)
        factors = self._unlisted.multipliers(
            "learning_rate_multipliers", list(map(self._index_of, variables))
        )
        if factors is None or not self._overrides_update_step():
            return learning_rates
        return [
            tf.cast(learning_rate, tf.float64) * factors[i]
            for i, learning_rate in enumerate(learning_rates)
        ]

    # ---- What a step is told of, and tells. ----

    @property
    def lazy_mode(self) -> bool:
        """Whether of sparse gradients only the rows that occur are updated.

        What is assigned takes effect in eager steps, and in what is traced
        afterwards.
        """
        return self._lazy_mode

    @lazy_mode.setter
    def lazy_mode(self, value: bool) -> None:
        validation.check_boolean("lazy_mode", value)
        self._lazy_mode = bool(value)
        if self.built:
            self._make_lists_of_rows()
            # Steps that weren't lazy have written down nothing.
            accumulated_rows.forget(self)

    def _make_lists_of_rows(self) -> None:
        """Of those that are accumulated, where lists are needed."""
        accumulates = (self.gradient_accumulation_steps or 1) > 1
        if (
            self.lazy_mode
            and accumulates
            and self._unlisted.accumulated_until is None
        ):
            with strategy_of(self).scope():
                accumulated_rows.build(self, self._trainable_variables)

    @property
    def gradient_norm(self) -> tf.Tensor:
        """The norm of all gradients of the last update, before clipping.

        A scalar in float64, 0 before the first; needs
        `track_gradient_norm=True` or `global_clipnorm`.
        """
        return self._unlisted.value(
            "gradient_norm", "`track_gradient_norm=True` or `global_clipnorm`"
        )

    @property
    def skipped_steps(self) -> tf.Tensor:
        """How many steps were left out, an int64 scalar.

        Needs `skip_nonfinite=True`.
        """
        return self._unlisted.value("skipped_steps", "`skip_nonfinite=True`")

    def _needs_norms(self) -> bool:
        return bool(self.clipnorm or self._keeps_gradient_norm())

    def _keeps_gradient_norm(self) -> bool:
        # With `global_clipnorm` it is measured in any case.
        return bool(self.track_gradient_norm or self.global_clipnorm)

    def _next_gradient_norm(
        self, measures: step.Measures | None
    ) -> Sequence[tuple[tf.Variable, tf.Tensor]]:
        # Who changes arguments later may have it without a measurement.
        if self._unlisted.gradient_norm is None or measures is None:
            return ()
        return [(self._unlisted.gradient_norm, measures.global_norm)]

    def _gradient_scale(self) -> arithmetic.Scalar:
        """What gradients are multiplied by, for `loss_scale_factor`."""
        factor = self.loss_scale_factor
        if isinstance(factor, (keras.Variable, tf.Variable, tf.Tensor)):
            return 1 / local_state.number(factor)
        return 1.0 / (factor or 1.0)

    def _update_count(self) -> int | tf.Tensor:
        """How many updates there have been, without the ops of Keras."""
        count = local_state.number(self._iterations)
        if self.gradient_accumulation_steps:
            count //= self.gradient_accumulation_steps
        return count

    def _is_update_step(self) -> Flag:
        """Whether this micro-step is the last of an update."""
        count = local_state.number(self._iterations)
        return is_zero((count + 1) % self.gradient_accumulation_steps)

    def _averaging(self) -> tuple[arithmetic.Scalar, Flag]:
        """How much of the averages stays, and whether they overwrite."""
        count = self._update_count()
        # In the first step an average becomes the variable.
        momentum = choose(
            is_zero(count), 0.0, local_state.number(self.ema_momentum)
        )
        if not self.ema_overwrite_frequency:
            return momentum, False
        return momentum, is_zero((count + 1) % self.ema_overwrite_frequency)

    # ---- A step. ----

    def apply(
        self,
        grads: Sequence[GradientLike | None],
        trainable_variables: Sequence[Variable] | None = None,
    ) -> None:
        """Updates the variables: one step.

        Args:
            grads: Gradients, one for each variable: tensors, `IndexedSlices`,
                what converts to a tensor, or None.
            trainable_variables: The variables; by default those that the
                optimizer was built with.

        Raises:
            ValueError: If there is another number of gradients than of
                variables, or one has a shape that doesn't fit its variable's.
            TypeError: If one doesn't convert to a tensor, or something else
                than variables is given.
        """
        self._apply(grads, trainable_variables)

    def _apply(
        self,
        grads: Sequence[GradientLike | None],
        trainable_variables: Sequence[Variable] | None,
        *,
        gradient_scale: arithmetic.Scalar | None = None,
        skips_nonfinite: bool = False,
    ) -> Flag:
        """`apply`, which a `LossScaleOptimizer` asks for more.

        Args:
            grads: As in `apply`.
            trainable_variables: Likewise.
            gradient_scale: What gradients are multiplied by, instead of what
                `loss_scale_factor` says.
            skips_nonfinite: Whether a step whose gradients aren't finite is
                skipped, whatever `skip_nonfinite` says.

        Returns:
            Whether there was a step.
        """
        grads = list(grads)
        if not grads or (trainable_variables is None and not self.built):
            # Keras says what to do, if there is anything to do.
            super().apply(grads, trainable_variables)
            return True
        if trainable_variables is None:
            variables = self._trainable_variables
        else:
            variables = list(trainable_variables)
        if gradient_scale is None and eager_step.run(self, grads, variables):
            return True
        # What has a plan is known.
        is_known = trainable_variables is None or bool(
            self._plans.find(variables, self.implementation)
        )
        if not is_known:
            validation.check_variables(variables)
        if len(grads) != len(variables):
            raise ValueError(
                "`grads` must have one gradient for each of the "
                f"{len(variables)} variables. Received: {len(grads)}"
            )
        if gradient_scale is None:
            gradient_scale = self._gradient_scale()
        skips_nonfinite = skips_nonfinite or self.skip_nonfinite
        grads = [
            gradient
            if gradient is None or isinstance(gradient, tf.Tensor)
            else gradients.as_gradient(gradient, variable)
            for gradient, variable in zip(grads, variables, strict=True)
        ]
        if not is_known:
            self._get_ready_for(variables)
        if local_state.in_replica() and _replicas_share(variables):
            return self._apply_once(
                grads, variables, gradient_scale, skips_nonfinite
            )
        with self._name_scope():
            restore = self._overwritten(variables, skips_nonfinite)
            enabled: Flag = True
            if restore:
                enabled = self._overwrites_with_numbers(grads, variables)
            grads, variables = self._to_update(grads, variables)
            after_launches: contextlib.AbstractContextManager
            after_launches = contextlib.nullcontext()
            if grads:
                this_step = step.Step(
                    self,
                    grads,
                    variables,
                    gradient_scale=gradient_scale,
                    skips_nonfinite=skips_nonfinite,
                    enabled=enabled,
                )
                enabled = this_step.run()
                after_launches = this_step.after_launches()
            with after_launches:
                self._constrain(variables, enabled)
                self._commit(restore, enabled, undo=True)
                self._count_step(enabled)
        return enabled

    def _apply_once(
        self,
        grads: Sequence[Gradient | None],
        variables: Sequence[Variable],
        gradient_scale: arithmetic.Scalar,
        skips_nonfinite: bool,
    ) -> Flag:
        """One step for all replicas, which share one copy of everything."""
        summed = list(grads)
        positions = [
            i
            for i, (gradient, variable) in enumerate(
                zip(grads, variables, strict=True)
            )
            if gradient is not None and not is_overwritten_by_gradient(variable)
        ]
        own = [tf_variable(variables[i]) for i in positions]
        ready = [
            gradients.for_update(
                grads[i],
                variable,
                variables[i],
                sparse=gradients.is_sparse(grads[i], variable, self.lazy_mode),
            )
            for i, variable in zip(positions, own, strict=True)
        ]
        for i, total in zip(
            positions, self._sum_over_replicas(ready, own), strict=True
        ):
            summed[i] = total

        def once(strategy: tf.distribute.Strategy, *arguments: Any) -> Flag:
            # The sums are the same in all replicas.
            summed, scale = tf.nest.map_structure(
                lambda x: strategy.experimental_local_results(x)[0], arguments
            )
            return self._apply(
                summed,
                variables,
                gradient_scale=scale,
                skips_nonfinite=skips_nonfinite,
            )

        return tf.distribute.get_replica_context().merge_call(
            once, args=(summed, gradient_scale)
        )

    def _overwritten(
        self, variables: Sequence[Variable], skips_nonfinite: bool
    ) -> list[tuple[Variable, tf.Tensor]]:
        """What gradients overwrite, as it is, if the step may be skipped."""
        overwritten = [
            variable
            for variable in variables
            if skips_nonfinite and is_overwritten_by_gradient(variable)
        ]
        if self.gradient_accumulation_steps:
            overwritten += [
                self._accumulated_gradients[self._index_of(variable)]
                for variable in overwritten
            ]
        return [
            (variable, tf.identity(tf.convert_to_tensor(variable)))
            for variable in overwritten
        ]

    def _overwrites_with_numbers(
        self,
        grads: Sequence[Gradient | None],
        variables: Sequence[Variable],
    ) -> tf.Tensor:
        """Whether what gradients overwrite becomes finite, in all replicas."""
        finite = tf.reduce_all(
            [
                gradient is None or tf.reduce_all(tf.math.is_finite(gradient))
                for gradient, variable in zip(grads, variables, strict=True)
                if is_overwritten_by_gradient(variable)
            ]
        )
        return local_state.in_all_replicas(finite)

    def _constrain(self, variables: Sequence[Variable], enabled: Flag) -> None:
        for variable in variables:
            if variable.constraint is not None:
                master_weights.constrain(self, variable, enabled)

    def _commit(
        self,
        values: Sequence[tuple[Variable, tf.Tensor]],
        commits: Flag,
        undo: bool = False,
    ) -> None:
        """Assigns what is no slot, if the step was one (to undo: if not)."""
        if commits is undo:
            # Known to be no step, or to need no undoing.
            return
        for variable, value in values:
            if undo:
                value = choose(commits, tf.convert_to_tensor(variable), value)
            elif commits is not True:
                dtype = tf_variable(variable).dtype
                value = choose(commits, tf.cast(value, dtype), variable)
            local_state.assign(variable, value)

    def _count_step(self, enabled: Flag) -> None:
        """The one place where counters advance."""
        if enabled is True:
            if local_state.is_one(self._iterations):
                self._iterations.count_eagerly()
            else:
                self._iterations.assign_add(1)
            return
        counted = tf.cast(enabled, self._iterations.dtype)
        self._iterations.assign_add(counted)
        skipped = self._unlisted.skipped_steps
        if skipped is not None:
            local_state.assign(
                skipped, tf.convert_to_tensor(skipped) + 1 - counted
            )

    def _overrides_update_step(self) -> bool:
        """Whether a subclass, or a user, has put another rule in place."""
        update_step = getattr(self.update_step, "__func__", None)
        return update_step is not FusedOptimizer.update_step

    def _updates_one_by_one(self) -> bool:
        """Whether a step goes through `update_step`."""
        return (
            self._overrides_update_step()
            # Without gradients to sum, each copy of each variable is updated.
            or tf.distribute.in_cross_replica_context()
        )

    def _update_one(
        self, gradient: Any, variable: Variable, learning_rate: Any
    ) -> None:
        with master_weights.only_own_update(self, variable):
            super()._update_one(gradient, variable, learning_rate)

    def update_step(
        self,
        gradient: GradientLike,
        variable: Variable,
        learning_rate: arithmetic.Scalar,
    ) -> None:
        """Updates one variable, as a part of a step.

        A subclass may override it, as with Keras' optimizers: then a step goes
        through it variable by variable.

        Args:
            gradient: Its gradient.
            variable: The variable, one that the optimizer was built with.
            learning_rate: The step size, a scalar.
        """
        scalars = self._scalars(learning_rate, self._update_count())
        sparse = gradients.is_sparse(gradient, variable, self.lazy_mode)
        plan = step_plan.make(self, [variable], [sparse])
        self._plans.last = plan
        (bucket,) = plan.buckets
        master_weights.note_own_update()
        frame = dataclasses.replace(
            BARE, learning_rate_factors=self._learning_rate_factors(bucket)
        )
        (own,) = plan.variables
        grads = [
            gradients.for_update(gradient, own, variable, sparse=bucket.sparse)
        ]
        if bucket.lists is None:
            composed_step.update(
                self, bucket, grads, frame, scalars, accumulates=False
            )
        else:
            step.launch(self, bucket, grads, frame, scalars)

    def _plan_of(
        self, variables: Sequence[Variable], are_sparse: Sequence[bool]
    ) -> step_plan.Plan:
        """The plan of a step over these variables, perhaps a kept one."""
        if not any(are_sparse):
            are_sparse = None
        in_copies = not local_state.in_replica() and any(
            map(local_state.has_copies, variables)
        )
        if self._updates_one_by_one() or in_copies:
            # An op would write to the first copy only.
            plan = step_plan.make(self, variables, are_sparse, composed=True)
        elif local_state.is_plain():
            mode = self.implementation
            if are_sparse is not None:
                mode = (mode, self.lazy_mode, *are_sparse)
            plan = self._plans.of(
                variables,
                mode,
                lambda: step_plan.make(
                    self, variables, are_sparse, groups=True
                ),
            )
        else:
            plan = step_plan.make(self, variables, are_sparse)
        self._plans.last = plan
        return plan

    @property
    def implementation_in_use(self) -> str | None:
        """What the last step ran that was eager, or was traced.

        `"custom_op"`, `"composed"`, `"custom_op and composed"` (of variables
        of different types, say), or None before the first step. After
        `model.fit` it says what `fit` ran.
        """
        last = self._plans.last
        return None if last is None else last.describe()

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, serializable."""
        config = super().get_config()
        if isinstance(self.weight_decay, (keras.Variable, tf.Variable)):
            config["weight_decay"] = float(self.weight_decay.numpy())
        config.update(
            {
                "decoupled_weight_decay": self.decoupled_weight_decay,
                "maximize": self.maximize,
                "learning_rate_multipliers": self.learning_rate_multipliers,
                "weight_decay_multipliers": self.weight_decay_multipliers,
                "skip_nonfinite": self.skip_nonfinite,
                "track_gradient_norm": self.track_gradient_norm,
                "lazy_mode": self.lazy_mode,
                "master_weights": self.master_weights,
                "stochastic_rounding": self.stochastic_rounding,
                "seed": self.seed,
                "state_dtype": self.state_dtype,
                "implementation": self.implementation,
            }
        )
        if self._exclusions != Exclusions():
            config["exclude_from_weight_decay"] = self._exclusions.get_config()
        return config

    @classmethod
    def from_config(
        cls,
        config: dict[str, Any],
        custom_objects: dict[str, Any] | None = None,
    ) -> FusedOptimizer:
        """Makes an optimizer from what `get_config` returned.

        Args:
            config: The configuration.
            custom_objects: Names of user-defined objects, to look up.
        """
        config = dict(config)
        excluded = config.pop("exclude_from_weight_decay", None)
        optimizer = super().from_config(config, custom_objects)
        if excluded:
            exclusions = Exclusions.from_config(excluded)
            optimizer.exclude_from_weight_decay(var_names=exclusions.var_names)
            # The variables themselves aren't known yet.
            optimizer._exclusions = exclusions
        return optimizer


def _replicas_share(variables: Sequence[Variable]) -> bool:
    """Whether several replicas have one copy (CentralStorageStrategy)."""
    return tf.distribute.get_strategy().num_replicas_in_sync > 1 and not all(
        isinstance(tf_variable(variable), tf.distribute.DistributedValues)
        for variable in variables
    )
