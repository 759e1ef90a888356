"""What an optimizer has: arguments, state, and what is saved."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python import keras_internals
from tf_opt.python.dispatch import Implementation
from tf_opt.python.functional.rule_spec import RuleSpec
from tf_opt.python.keras_internals import LearningRate, Variable, path_of
from tf_opt.python.optimizers.base import arguments, representation, saving
from tf_opt.python.optimizers.base.building import StateBuilder
from tf_opt.python.optimizers.base.choices import OPTIONS, Choices, Exclusions
from tf_opt.python.optimizers.state import patterns, storage, table_modes
from tf_opt.python.optimizers.state.optimizer_state import (
    OptimizerState,
    UnsavedState,
)
from tf_opt.python.optimizers.step.catch_up import UpToDateReads
from tf_opt.python.optimizers.step.context import needs_bits
from tf_opt.python.optimizers.step.plan import PlanKeeper
from tf_opt.python.optimizers.values import validation
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.tensorflow_internals import explains_later_traces

_MULTIPLIERS = ("learning_rate_multipliers", "weight_decay_multipliers")


def choice(option: str, check: Callable[[str, Any], Any], doc: str) -> Any:
    """Creates the property of a choice by variable.

    `check` raises an error for a wrong choice, and returns a copy of others.
    """
    return property(
        lambda self: patterns.read_only(self._choices.chosen[option]),
        lambda self, x: self._choose(option, check(option, x)),
        doc=doc,
    )


class KerasOptimizer(keras.optimizers.Optimizer):
    """Base class: what an optimizer has. `FusedOptimizer` is what it does."""

    # The rule, the checks of all arguments, the class's own arguments besides
    # the learning rate, and those that can't change once there is a state.
    # (base/definition.py sets these.)
    _spec: RuleSpec
    _checks: Mapping[str, arguments.Check] = arguments.COMMON_CHECKS
    _own_arguments: tuple[str, ...] = ()
    _fixed: frozenset[str] = frozenset()
    # Checks that aren't the rule's, and arguments that users should give, with
    # what the class does without.
    _own_checks: Mapping[str, arguments.Check] = {}
    _if_left_out: Mapping[str, str] = {}

    # Where Keras' averages begin (`StepContext.begins_averages`).
    _begins_averages = True

    implementation: Implementation
    # The variables that a step reads and writes; None before `build`.
    _state: OptimizerState | None = None

    def __init__(self, learning_rate: LearningRate, **given: Any) -> None:
        """Takes all arguments by name, those with their defaults, too."""
        if isinstance(learning_rate, dict):
            # That of `get_config`.
            learning_rate = keras.saving.deserialize_keras_object(learning_rate)
        validation.check_learning_rate(learning_rate)
        # Keras' constructor makes variables, one of a number.
        with keras_internals.numbers_in_float32(), explains_later_traces():
            super().__init__(
                learning_rate,
                weight_decay=given["weight_decay"],
                name=given["name"],
            )
        self._plans = PlanKeeper()
        self._reads = UpToDateReads()
        self._unsaved = UnsavedState()
        self._choices = Choices()
        # The seed comes after what needs one.
        names = ["state_dtype", *arguments.COMMON_CHECKS, *self._own_arguments]
        names.remove("learning_rate")
        for name in (*names, *_MULTIPLIERS, "lazy_mode"):
            setattr(self, name, given[name])
        if (excluded := given["exclude_from_weight_decay"]) is not None:
            self._exclude(Exclusions.load(excluded))
        if (by_position := given["by_position"]) is not None:
            self._choices = self._choices.load(by_position)

    # ---- Arguments. ----

    def __repr__(self) -> str:
        return representation.of_optimizer(self)

    def __setattr__(self, name: str, value: Any) -> None:
        keras_internals.refuse_lr(self, name, value)
        value = arguments.standard(self._checks, name, value)
        is_option = self._state and name[0] != "_" and hasattr(self, name)
        if is_option:
            arguments.check_fits_state(self, self._state, name, value)
        arguments.check(self, self._checks, name, value)
        if name in self._checks and isinstance(value, Variable):
            # It stands for a number; Keras would track it as state. TensorFlow
            # tracks it, so that a function that reads it can be saved.
            object.__setattr__(self, name, value)
            self._track_trackable(value, name, overwrite=True)
        elif name in OPTIONS:
            # TensorFlow doesn't save what it tracks and the user has changed.
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)
        # To assign the learning rate is to assign its variable.
        if self._state is not None and name != "learning_rate":
            self._plans.changes += 1
        if is_option and self._state.spec is not self._builder.needed_spec():
            spec = self._builder.needed_spec()
            self._state = dataclasses.replace(self._state, spec=spec)
            self._plans.clear()
        if name == "track_gradient_norm" and value and self._state is not None:
            self._keep("gradient_norm")
        # An unneeded draw would change the random numbers of the user's layers.
        if (
            name in ("seed", "stochastic_rounding", "state_dtype")
            and getattr(self, "seed", 0) is None
            and needs_bits(self)
        ):
            self.seed = keras_internals.next_seed()

    # ---- Numbers that checkpoints don't contain. ----

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

    def _keep(self, name: str) -> None:
        """Keeps one of these numbers from now on."""
        with access.creation_scope_of(self):
            self._unsaved.keep(name)

    # ---- Choices by variable. ----

    learning_rate_multipliers: Mapping[str, float] | None = choice(
        "learning_rate_multipliers",
        patterns.check_factors,
        """Factors of the learning rate by regular expression, or None.

        An assignment takes effect in the next step, traced or not. It is an
        error if a step was traced without factors.
        """,
    )
    weight_decay_multipliers: Mapping[str, float] | None = choice(
        "weight_decay_multipliers",
        patterns.check_factors,
        """Factors of the weight decay by regular expression, or None.

        An assignment takes effect as that of `learning_rate_multipliers`.
        """,
    )

    lazy_mode: table_modes.LazyMode = choice(
        "lazy_mode",
        table_modes.check_lazy_mode,
        """Whether tables are lazy, or patterns for those that are.

        An assignment takes effect in eager steps and in functions traced
        afterwards. Once the optimizer is built, it can't change which tables
        catch up.
        """,
    )

    def exclude_from_weight_decay(
        self,
        var_list: Sequence[keras.Variable] | None = None,
        var_names: Sequence[str] | None = None,
    ) -> None:
        """Excludes variables from weight decay; saved with the optimizer.

        Args:
            var_list: Variables to exclude.
            var_names: Regular expressions. A variable is excluded if one of
                them is found in its name: `"bias"` since Keras 3.16, and
                `"dense/bias:0"` before. If none of them is found in any name,
                there is a warning, at the latest in `build`.
        """
        if not isinstance(var_names, str):
            var_names = sorted(set(var_names or ()))
        allowed = "None or a list of regular expressions"
        exclusions = Exclusions(
            patterns.as_list("var_names", var_names, allowed),
            sorted(map(path_of, var_list or ())),
        )
        if self.built:
            exclusions.warn_if_unmatched(self._trainable_variables)
        self._exclude(exclusions, var_list)

    def _exclude(
        self,
        exclusions: Exclusions,
        listed: Sequence[keras.Variable] | None = None,
    ) -> None:
        # The method of Keras 3.16 refuses it after `build`.
        built, self.built = self.built, False
        try:
            super().exclude_from_weight_decay(listed, exclusions.var_names)
        finally:
            self.built = built
        self._choose("excluded", exclusions)

    def _choose(self, option: str, choice: Any) -> None:
        """Stores a choice by variable, which a built optimizer also applies."""
        if option == "lazy_mode" and self._state is not None:
            table_modes.check_same_catch_up(choice, self.lazy_mode, self._state)
        choices = self._choices.replace(option, choice)
        if self.built:
            choices = choices.resolve(self, self._trainable_variables)
            self._apply_choice(choices, option)
        self._choices = choices

    def _apply_choice(self, choices: Choices, option: str) -> None:
        """Lets the next step find the variables' values of an option."""
        values = choices.values[option]
        if option in _MULTIPLIERS:
            with access.creation_scope_of(self):
                getattr(self._unsaved, option).set(values, len(choices.paths))
        elif self._state is not None and option in ("excluded", "lazy_mode"):
            self._state = dataclasses.replace(
                self._state, **{option: tuple(values)}
            )

    # ---- State. ----

    def build(self, var_list: Sequence[keras.Variable]) -> None:
        """Creates the state, in the order of Keras' optimizer.

        Args:
            var_list: The model variables that will be updated.

        Raises:
            ValueError: If a regular expression of the multipliers or of
                `lazy_mode` matches no variable, or a variable doesn't fit an
                option. The optimizer then is as it was before.
        """
        if not self.built:
            access.once_for_all_replicas(lambda: self._build(var_list))

    def _build(self, variables: Sequence[keras.Variable]) -> None:
        access.check_strategy_of(self)
        # An error leaves the optimizer as it was: all checks come first.
        builder = StateBuilder(self, self._spec, variables)
        # A loaded optimizer may be for other variables, of unfrozen layers.
        if "excluded" not in self._choices.values:
            self._choices.chosen["excluded"].warn_if_unmatched(variables)
        choices = self._choices.resolve(self, variables)
        modes = choices.values["lazy_mode"]
        catch_up = table_modes.which_catch_up(self.lazy_mode, variables, modes)
        if any(catch_up):
            builder.spec.check_coasts(vars(self), self.weight_decay)
        before, self._choices, self._builder = self._choices, choices, builder
        try:
            with explains_later_traces():
                self._create_state(variables, catch_up)
        finally:
            self.built = self._state is not None
            if not self.built:
                self._choices = before

    def _create_state(
        self, variables: Sequence[keras.Variable], catch_up: Sequence[bool]
    ) -> None:
        super().build(variables)
        self._plans.clear()
        self._unsaved.clear()
        # `global_clipnorm` needs the norm anyway.
        if self.track_gradient_norm or self.global_clipnorm is not None:
            self._keep("gradient_norm")
        if self.skip_nonfinite:
            self._keep("skipped_steps")
        for option in self._choices.chosen:
            self._apply_choice(self._choices, option)
        spec = self._builder.spec
        input_axes = self._input_axes(variables)
        row_wise = self._choices.values["row_wise"]
        forms = self._builder.forms(row_wise, input_axes, catch_up)
        slots = self._builder.slots(forms)
        # A subclass may read Keras' lists; a slot that is left out has none.
        for slot in self._spec.slots_of_forms:
            if slot.keras_list:
                setattr(self, slot.keras_list, slots.get(slot.name, []))
        shared = {x.name: self._builder.shared(x) for x in spec.shared}
        self._add_own_state()
        masters = self._builder.masters() if self.master_weights else ()
        since, coasts = self._builder.waiting_rows(catch_up)
        copies = self._builder.working_copies()
        self._unsaved.working_copies = copies
        self._state = OptimizerState(
            spec=spec,
            variables=self._trainable_variables,
            working_copies=copies,
            index_of=self._get_variable_index,
            excluded=tuple(self._choices.values["excluded"]),
            lazy_mode=tuple(self._choices.values["lazy_mode"]),
            forms=forms,
            input_axes=input_axes,
            built_slots=slots,
            accumulators=getattr(self, "_accumulated_gradients", ()),
            averages=getattr(self, "_model_variables_moving_average", ()),
            masters=masters,
            since=since,
            coasting=coasts,
            shared=shared,
            iterations=self._iterations,
            list_all=lambda: self.variables,
            unsaved=self._unsaved,
        )

    def _input_axes(self, variables: Sequence[keras.Variable]) -> Sequence[int]:
        """Hook for `OptimizerState.input_axes`; 0 where there is no matrix."""
        return ()

    def _add_own_state(self) -> None:
        """Hook for variables of a subclass that its rule doesn't know."""

    def add_variable_from_reference(
        self,
        reference_variable: Variable,
        name: str | None = None,
        initializer: Any = "zeros",
    ) -> keras.Variable:
        """Adds a variable of another variable's shape, in the arithmetic type.

        Keras' method uses the other variable's type; a sum of 16-bit numbers
        would lose digits. Averages have the type of `state_dtype`.

        Args:
            reference_variable: The other variable.
            name: The suffix of the variable's name.
            initializer: The initial value.
        """
        dtype = None
        if name == keras_internals.MOVING_AVERAGE:
            dtype = storage.state_dtype_of(reference_variable, self.state_dtype)
        # A subclass may add variables before it builds the others.
        builder = getattr(self, "_builder", None) or StateBuilder(
            self, self._spec, [reference_variable]
        )
        return builder.add(
            reference_variable,
            name or "var",
            dtype=dtype,
            initializer=initializer,
        )

    # ---- Saving. ----

    def save_own_variables(self, store: Any) -> None:
        """Saves the variables; those that Keras lacks have separate keys."""
        self._keep_set_weights()
        saving.save(self.variables, saving.separate_keys(self._state), store)

    def load_own_variables(self, store: Any) -> None:
        """Loads the variables that `save_own_variables` saved."""
        keys = saving.separate_keys(self._state)
        super().load_own_variables(saving.adapt(self.variables, keys, store))

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, serializable."""
        config = super().get_config()
        for name in (*arguments.Options.__annotations__, *self._own_arguments):
            config[name] = getattr(self, name)
        for name, value in config.items():
            if name in OPTIONS:
                config[name] = copy.copy(value)
            elif name in self._checks and isinstance(value, Variable):
                config[name] = float(value.numpy())
        return config | self._choices.get_config()
