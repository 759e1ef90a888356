"""Creation, saving and loading of an optimizer's state."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python import keras_internals
from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import coasting
from tf_opt.python.functional.rule_spec import Slot
from tf_opt.python.functional.step_frame import is_known
from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers.base import saving
from tf_opt.python.optimizers.base.configuration import ConfiguredOptimizer
from tf_opt.python.optimizers.base.saved_options import Exclusions
from tf_opt.python.optimizers.state import lazy_mode as lazy_modes
from tf_opt.python.optimizers.state import patterns
from tf_opt.python.optimizers.state import storage
from tf_opt.python.optimizers.state.lazy_mode import LazyMode
from tf_opt.python.optimizers.state.lazy_mode import Mode
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.state.optimizer_state import PerVariable
from tf_opt.python.optimizers.state.placement import placement_of
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.gradients import path_of


class BuiltOptimizer(ConfiguredOptimizer):
    """Base class: creates, saves and loads slots and other state."""

    # The variables that a step reads and writes; None before `build`.
    _state: OptimizerState | None = None

    def _add_state(
        self, variables: Sequence[keras.Variable]
    ) -> Sequence[PerVariable]:
        """Adds the rule's slots and its state that all variables share.

        Returns:
            The slots, in the rule's order, each for all variables.
        """
        slots = self._add_slots(variables, self._spec.required_slots)
        for slot in self._spec.optional_slots:
            if not is_known(getattr(self, slot.needed_by), 0):
                slots += self._add_slots(variables, [slot])
        return slots

    def build(self, var_list: Sequence[keras.Variable]) -> None:
        """Creates the state, in the order of Keras' optimizer.

        Args:
            var_list: The model variables that will be updated.

        Raises:
            ValueError: If a regular expression of the multipliers or of
                `lazy_mode` matches no variable, or a variable doesn't fit an
                option. The optimizer then is as it was before.
        """
        if self.built:
            return
        access.once_for_all_replicas(lambda: self._build(var_list))

    @keras_internals.undone_by_errors
    def _build(self, var_list: Sequence[keras.Variable]) -> None:
        self._check_complex(var_list)
        # A loaded optimizer may be for other variables, of unfrozen layers.
        if self._by_position.excluded is None:
            self._warn_if_unmatched(var_list)
        saved = self._by_position = self._by_position.of(var_list)
        # Bypasses Keras, which would look for variables in it.
        object.__setattr__(
            self,
            "_placement",
            placement_of(
                self.state_device,
                self.shard_state,
                keras_internals.strategy_of(self),
                var_list,
            ),
        )
        super().build(var_list)
        self._plans.clear()
        self._exclude_saved(var_list)
        self._unsaved.clear()
        # `global_clipnorm` needs the norm anyway.
        if self.track_gradient_norm or self.global_clipnorm is not None:
            self._keep("gradient_norm")
        if self.skip_nonfinite:
            self._keep("skipped_steps")
        for name in ("learning_rate_multipliers", "weight_decay_multipliers"):
            self._set_multipliers(
                name, getattr(self, name), getattr(saved, name)
            )
        lazy = self._set_lazy_mode(self.lazy_mode, saved.lazy_mode)
        slots = self._add_state(var_list)
        if self.master_weights:
            self._masters = [self._add_master(x) for x in var_list]
        since, coasts = self._add_waiting_rows(var_list, lazy)
        copies = self._placement.working_copies(var_list)
        for variable, copy in zip(var_list, copies, strict=False):
            if copy is not None:
                self._take_for(copy, variable)
        self._unsaved.working_copies = copies
        self._set_state(
            OptimizerState(
                variables=self._trainable_variables,
                working_copies=copies,
                index_of=self._index_of,
                decays=self._which_decay(),
                lazy=lazy,
                slots=slots,
                accumulators=getattr(self, "_accumulated_gradients", ()),
                averages=getattr(self, "_model_variables_moving_average", ()),
                masters=self._masters,
                since=since,
                coasting=coasts,
                iterations=self._iterations,
                list_all=self._list_all,
                unsaved=self._unsaved,
            )
        )

    def _keep(self, name: str) -> None:
        """Keeps a number that no checkpoint contains, from now on."""
        with access.creation_scope_of(self):
            self._unsaved.keep(name)

    def _check_complex(self, variables: Sequence[keras.Variable]) -> None:
        """Raises for options that complex variables don't have."""
        for name in ("use_ema", "gradient_accumulation_steps", "state_dtype"):
            value = getattr(self, name)
            for variable in variables if value else ():
                if tf.dtypes.as_dtype(variable.dtype).is_complex:
                    raise ValueError(
                        f"`{name}` is not available for complex variables. "
                        f"Received: {name}={value!r}, and "
                        f"`{path_of(variable)}` of {variable.dtype}"
                    )

    def _set_state(self, state: OptimizerState) -> None:
        # Bypasses Keras, which would wrap and track the state.
        object.__setattr__(self, "_state", state)

    def _change_state(self, **changes: Any) -> None:
        """Replaces parts of the state, if the optimizer is built."""
        if self._state is not None:
            self._set_state(self._state._replace(**changes))

    def _which_decay(self) -> list[bool]:
        return list(map(self._decays, self._trainable_variables))

    def _list_all(self) -> list[keras.Variable]:
        return self.variables

    # ---- Variables without weight decay. ----

    def exclude_from_weight_decay(
        self,
        var_list: Sequence[keras.Variable] | None = None,
        var_names: Sequence[str] | None = None,
    ) -> None:
        """Excludes variables from weight decay; saved with the optimizer.

        Args:
            var_list: Variables to exclude.
            var_names: Regular expressions. A variable is excluded if one of
                them is found in its name, such as `"dense/bias:0"`. If none of
                them is found in any name, there is a warning, at the latest in
                `build`.
        """
        super().exclude_from_weight_decay(
            var_list=var_list, var_names=var_names
        )
        self._by_position = self._by_position.replace(excluded=None)
        self._exclusions = Exclusions(
            var_names=tuple(sorted(set(var_names or ()))),
            paths=tuple(sorted(map(path_of, var_list or ()))),
        )
        if self.built:
            self._warn_if_unmatched(self._trainable_variables)
        self._change_state(decays=self._which_decay())

    def _warn_if_unmatched(self, variables: Sequence[Variable]) -> None:
        patterns.warn_if_unmatched(
            "exclude_from_weight_decay(var_names=...)",
            self._exclusions.var_names,
            [
                keras_internals.tf_variable(variable).name
                for variable in variables
            ],
        )

    def _exclude_saved(self, variables: Sequence[keras.Variable]) -> None:
        """Excludes the variables that a loaded optimizer excludes."""
        if self._by_position.excluded is not None:
            self._exclude_positions(self._by_position.excluded)
            return
        if not self._excluded_positions():
            paths = self._exclusions.paths
            self._exclude_variables(x for x in variables if path_of(x) in paths)
        self._exclusions = Exclusions(
            self._exclusions.var_names,
            tuple(path_of(variables[i]) for i in self._excluded_positions()),
        )

    # ---- Lazy tables. ----

    @property
    def lazy_mode(self) -> LazyMode:
        """Whether tables are lazy, or patterns for those that are.

        An assignment takes effect in eager steps and in functions traced
        afterwards. Once the optimizer is built, it can't change which tables
        catch up.
        """
        return lazy_modes.copy_of(self._lazy_mode)

    @lazy_mode.setter
    def lazy_mode(self, value: LazyMode) -> None:
        if self._state is not None:
            self._check_same_catch_up(lazy_modes.check("lazy_mode", value))
        self._change_state(lazy=self._set_lazy_mode(value))

    def _set_lazy_mode(
        self, value: LazyMode, saved: tuple[Mode, ...] | None = None
    ) -> tuple[Mode, ...]:
        """Sets `lazy_mode`; `saved` are the variables' modes, if loaded.

        Returns:
            The mode of each variable; empty before `build`.
        """
        value = lazy_modes.check("lazy_mode", value)
        lazy = saved
        if lazy is None and self.built:
            lazy = lazy_modes.modes_of(value, self._trainable_variables)
        if self.use_ema:
            lazy_modes.check_none_is_lazy(value, lazy or ())
        self._by_position = self._by_position.replace(
            lazy_mode=None if isinstance(value, (bool, str)) else lazy
        )
        # Bypasses Keras, which would wrap the list.
        object.__setattr__(self, "_lazy_mode", value)
        return lazy or ()

    def _check_same_catch_up(self, value: LazyMode) -> None:
        """Raises if other tables would catch up than before."""
        after = lazy_modes.which_catch_up(value, self._state.variables)
        if after != [self._state.waits(i) for i in range(len(after))]:
            raise ValueError(
                "`lazy_mode` can't change which tables catch up once the "
                "optimizer is built, as its state depends on it. Give it to "
                f"the constructor. Received: lazy_mode={value!r}, before: "
                f"{self.lazy_mode!r}"
            )

    # ---- Slots. ----

    def _add_slots(
        self,
        variables: Sequence[keras.Variable],
        slots: Sequence[Slot],
        *,
        rows: int | None = None,
    ) -> list[PerVariable]:
        """Adds some slots for each variable, a variable at a time.

        Order and names are as in Keras. The type depends on `state_dtype`.

        Args:
            variables: The variables.
            slots: The slots.
            rows: The number of rows of slots that are tables.

        Returns:
            For each slot, its variables in the order of `variables`; None for
            a variable without slots.
        """
        added: list[PerVariable] = [[] for _ in slots]
        for variable in variables:
            for slot, its_variables in zip(slots, added, strict=True):
                # Keras overwrites such a variable with its gradient.
                if keras_internals.is_overwritten_by_gradient(variable):
                    its_variables.append(None)
                    continue
                dtype = None
                if not slot.exact:
                    dtype = storage.state_dtype_of(variable, self.state_dtype)
                its_variables.append(
                    self._add_slot(
                        variable,
                        slot.keras_name,
                        rows if slot.row_input else None,
                        dtype=dtype,
                    )
                )
        return added

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
        shape = tf.TensorShape(variable.shape)
        if not shape.is_fully_defined():
            raise ValueError(
                f"`{path_of(variable)}` must have a fully defined shape, "
                f"because its {name} has the same shape. Received: "
                f"shape={shape}"
            )
        dtype = dtype or arithmetic.slot_dtype(variable.dtype)
        with self._placement.beside(keras_internals.tf_variable(variable)):
            return self.add_variable(
                shape=(*(() if rows is None else (rows,)), *shape),
                initializer=initializer,
                dtype=dtype.name,
                layout=keras_internals.layout_of(variable),
                name=f"{_prefix_of(variable)}_{name}",
            )

    def _add_master(self, variable: keras.Variable) -> keras.Variable | None:
        if not storage.has_master(variable):
            return None

        def value(shape: Sequence[int], dtype: Any) -> tf.Tensor:
            # Keras may build an optimizer while it traces a step.
            with tf.init_scope():
                return tf.cast(tf.convert_to_tensor(variable), dtype)

        return self._add_slot(
            variable, "master_weight", None, value, dtype=tf.float32
        )

    def _add_waiting_rows(
        self, variables: Sequence[keras.Variable], modes: Sequence[Mode]
    ) -> tuple[PerVariable, PerVariable]:
        """Adds the state of rows that catch up; see `OptimizerState`.

        Returns:
            `since` and `coasting`, empty if no table catches up.
        """
        since: list[keras.Variable | None] = []
        coasts: list[keras.Variable | None] = []
        catch_up = lazy_modes.which_catch_up(self.lazy_mode, variables, modes)
        for variable, catches_up in zip(variables, catch_up, strict=True):
            if not catches_up:
                since.append(None)
                coasts.append(None)
                continue
            lazy_modes.check_can_catch_up(variable)
            prefix = _prefix_of(variable)
            tf_variable = keras_internals.tf_variable(variable)
            with self._placement.beside(tf_variable):
                since.append(
                    self.add_variable(
                        # TensorFlow can't scatter int32 on GPUs.
                        variable.shape[:1],
                        dtype="float32",
                        name=f"{prefix}_since",
                    )
                )
                coasts.append(
                    self.add_variable(
                        (lazy_modes.MOST_MISSED_STEPS, coasting.COLUMNS),
                        dtype="float64",
                        name=f"{prefix}_coasting",
                    )
                )
        return (
            (since, coasts) if any(x is not None for x in since) else ((), ())
        )

    # ---- Saving. ----

    def save_own_variables(self, store: Any) -> None:
        """Saves the variables; those that Keras lacks have separate keys."""
        saving.save(self.variables, self._extras(), store)

    def load_own_variables(self, store: Any) -> None:
        """Loads the variables that `save_own_variables` saved."""
        super().load_own_variables(
            saving.adapt(self.variables, self._extras(), store)
        )

    def _extras(self) -> list[saving.Extra]:
        """Returns the variables that Keras' optimizer doesn't have."""
        if self._state is None:
            return []

        def add(kind: str, variables: PerVariable, default: Any) -> None:
            extras.extend(
                saving.Extra(x, kind, functools.partial(default, x, i))
                for i, x in enumerate(variables)
                if x is not None
            )

        def own_value(master: keras.Variable, index: int) -> np.ndarray:
            value = tf.convert_to_tensor(self._state.variables[index])
            return tf.cast(value, master.dtype).numpy()

        def zeros(variable: keras.Variable, _: int) -> np.ndarray:
            return np.zeros(variable.shape, variable.dtype)

        extras: list[saving.Extra] = []
        add("master_weight", self._state.masters, own_value)
        add("since", self._state.since, zeros)
        add("coasting", self._state.coasting, zeros)
        return extras


def _prefix_of(variable: Variable) -> str:
    """Returns what the names of a variable's state begin with."""
    return path_of(variable).replace("/", "_").replace(":", "_")
