"""The variables of a built optimizer, by the index of the model variable."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import gc
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional.arithmetic import Flag, choose, is_known
from tf_opt.python.functional.rule_spec import Form, RuleSpec
from tf_opt.python.keras_internals import Number, Variable, tf_variable
from tf_opt.python.optimizers.state.placement import bytes_of
from tf_opt.python.optimizers.values import variables as access

# One variable for each model variable; None for a model variable without one.
PerVariable = Sequence[keras.Variable | None]


class UnknownValueError(AttributeError, ValueError):
    """Error of a property that has no value yet; `hasattr` is then False."""


class Multipliers(tf.Module):
    """A factor for each model variable, if the user sets any."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.factors: tf.Variable | None = None
        # The graphs of steps that were traced without factors.
        self._traced_without: weakref.WeakSet[tf.Graph] = weakref.WeakSet()

    def set(self, factors: Sequence[float] | None, count: int) -> None:
        """Sets the factors of `count` variables; None sets all to 1."""
        if self.factors is not None:
            # A traced step may read this variable.
            self.factors.assign([1.0] * count if factors is None else factors)
        elif factors is not None:
            if self._traced_without:
                # A model that is compiled again drops its traced steps in a
                # cycle.
                gc.collect()
            if self._traced_without:
                raise ValueError(
                    f"`{self.name}` must be set before a step is traced, "
                    "because a step that was traced without them doesn't read "
                    f"them. Begin with {self.name}={{'.': 1.0}}, and they may "
                    "change at any time. Or call `model.compile` with this "
                    "optimizer again and then set them, except under a strategy"
                )
            self.factors = tf.Variable(
                factors, dtype=tf.float64, trainable=False, name=self.name
            )

    def of(self, indices: Sequence[int]) -> tf.Tensor | None:
        """Returns the factors of some variables, or None without factors."""
        if self.factors is not None:
            return tf.gather(tf.convert_to_tensor(self.factors), indices)
        if not tf.executing_eagerly():
            self._traced_without.add(tf.compat.v1.get_default_graph())
        return None


class UnsavedState(tf.Module):
    """Variables that checkpoints don't contain.

    `optimizer.variables` has Keras' order, so that checkpoints move to Keras'
    optimizers and back. An attribute holds this module, so that TensorFlow
    tracks the variables for saved functions; Keras doesn't track modules.
    """

    def __init__(self) -> None:
        super().__init__(name="unsaved_state")
        self.clear()

    def clear(self) -> None:
        """Drops the variables of an earlier build."""
        self.learning_rate_multipliers = Multipliers(
            "learning_rate_multipliers"
        )
        self.weight_decay_multipliers = Multipliers("weight_decay_multipliers")
        self.gradient_norm: tf.Variable | None = None
        self.skipped_steps: tf.Variable | None = None
        self.working_copies: Sequence[tf.Variable | None] = ()

    def keep(self, name: str) -> None:
        """Keeps the number of this name from now on; it begins with 0."""
        if getattr(self, name) is None:
            dtype = tf.float64 if name == "gradient_norm" else tf.int64
            number = tf.Variable(0, dtype=dtype, trainable=False, name=name)
            setattr(self, name, number)

    def _trackable_children(
        self, save_type: str = "checkpoint", **kwargs: Any
    ) -> dict[str, Any]:
        # TensorFlow calls this to find the parts of an object to save.
        if save_type == "checkpoint":
            return {}
        return super()._trackable_children(save_type, **kwargs)

    def value(self, name: str, arguments: str) -> tf.Tensor:
        """Returns a number that is kept if these arguments ask for it."""
        variable = getattr(self, name)
        if variable is None:
            raise UnknownValueError(
                f"`{name}` is known once an optimizer with {arguments} has "
                "been built."
            )
        return tf.convert_to_tensor(variable)


@dataclasses.dataclass(frozen=True)
class OptimizerState:
    """Variables that a step reads and writes.

    Attributes:
        spec: The rule, with the slots that there are.
        variables: The model variables.
        working_copies: What a step updates in their place; see placement.py.
            Empty if it updates the variables themselves.
        index_of: Returns the index of a model variable or of a copy of it.
        excluded: For each model variable, whether it is excluded from decay.
        lazy_mode: For each model variable, whether its sparse gradients are
            applied only to the rows that occur; `CATCH_UP` if the others catch
            up.
        forms: For each model variable, the form of the rule that updates it.
        input_axes: For each one that is a stack's matrix, how many axes are its
            rows; see `RuleSpec.layout_of`. Or empty.
        built_slots: The variables of each slot that was built, by its name.
            What needs a slot may be off at the moment.
        accumulators: Sums of gradients, or empty.
        averages: Moving averages of the model variables, or empty.
        masters: Master weights, or empty.
        since: For rows that catch up, when each was up to date: the number of
            its entry in `coasting`. Or empty.
        coasting: What rows missed since each step; see functional/coasting.py.
            Or empty.
        shared: The variables of `RuleSpec.shared`, by name.
        iterations: The counter of steps.
        list_all: Returns all of the optimizer's own variables.
        unsaved: Variables that checkpoints don't contain.
    """

    spec: RuleSpec
    variables: Sequence[Variable]
    working_copies: Sequence[tf.Variable | None]
    index_of: Callable[[Variable], int]
    excluded: Sequence[bool]
    lazy_mode: tuple[bool | str, ...]
    forms: tuple[Form, ...]
    input_axes: Sequence[int]
    built_slots: Mapping[str, PerVariable]
    accumulators: PerVariable
    averages: PerVariable
    masters: PerVariable
    since: PerVariable
    coasting: PerVariable
    shared: Mapping[str, keras.Variable]
    iterations: keras.Variable
    list_all: Callable[[], Sequence[Variable]]
    unsaved: UnsavedState

    @functools.cached_property
    def slots(self) -> list[PerVariable]:
        """For each slot of the rule, its variables."""
        return [self.built_slots[slot.name] for slot in self.spec.slots]

    @property
    def averages_to_swap(self) -> PerVariable:
        """The averages that may take the variables' place.

        Those that a rule computes start from this slot of its own.
        """
        if self.spec.average is None:
            return self.averages
        return self.slots[self.spec.average]

    def updated(self, variables: Sequence[Variable]) -> tuple[tf.Variable, ...]:
        """Returns what a step updates for variables, or for copies of them."""
        if not self.working_copies:
            return tuple(map(tf_variable, variables))
        return tuple(self.working_copies[self.index_of(x)] for x in variables)

    def on_device(self, index: int) -> AbstractContextManager:
        """Returns the context of the device on which the state lives."""
        if not self.working_copies:
            return contextlib.nullcontext()
        return tf.device(self.working_copies[index].device)

    def slots_of(self, index: int) -> list[keras.Variable]:
        """Returns the slots of one variable, in the rule's order."""
        slots = self.spec.forms[self.forms[index]].slots
        return [self.built_slots[slot.name][index] for slot in slots]

    def waits(self, index: int) -> bool:
        """Returns whether rows of a variable may have missed steps."""
        return bool(self.since) and self.since[index] is not None

    def update_count(self, micro_steps: int | None) -> int | tf.Tensor:
        """Returns how many updates came before, of so many steps each."""
        count = access.as_number(self.iterations)
        return count // micro_steps if (micro_steps or 1) > 1 else count

    def weight_decays(
        self, weight_decay: Number | None, indices: Sequence[int]
    ) -> float | np.ndarray | tf.Tensor:
        """Returns one weight decay for some variables, or a vector of them."""
        if weight_decay is None or is_known(weight_decay, 0):
            return 0.0
        applies = [not self.excluded[index] for index in indices]
        factors = self.unsaved.weight_decay_multipliers.of(indices)
        if factors is None and isinstance(
            weight_decay, (int, float, np.number)
        ):
            decay = float(weight_decay)
            return decay if all(applies) else decay * np.array(applies)
        decays = arithmetic.float64(weight_decay) * tf.constant(
            applies, tf.float64
        )
        return decays if factors is None else decays * factors

    def learning_rate_factors(
        self, indices: Sequence[int]
    ) -> float | tf.Tensor:
        """Returns one factor for some variables, or a vector of them."""
        factors = self.unsaved.learning_rate_multipliers.of(indices)
        return 1.0 if factors is None else factors

    def commit(
        self, values: Sequence[tuple[Variable, Any]], commits: Flag
    ) -> None:
        """Assigns variables that all model variables share, if a step does."""
        if commits is False:
            return
        for variable, value in values:
            if commits is not True:
                value = tf.cast(value, tf_variable(variable).dtype)
                value = choose(commits, value, variable)
            access.assign(variable, value)

    def count(self, enabled: Flag, may_step: Flag = True) -> None:
        """Counts a step, or a skipped step. Nothing else advances counters.

        `enabled` tells whether the step did anything, `may_step` whether
        anything may change at all.
        """
        if enabled is True:
            if access.has_own_handle(self.iterations):
                access.count_eagerly(self.iterations)
            else:
                access.count(self.iterations, 1)
            return
        counted = tf.cast(enabled, self.iterations.dtype)
        access.count(self.iterations, counted)
        skipped = self.unsaved.skipped_steps
        if skipped is not None:
            skips = may_step & tf.logical_not(enabled)
            skips = tf.cast(skips, skipped.dtype)
            access.assign(skipped, tf.convert_to_tensor(skipped) + skips)

    def memory(self) -> dict[str, dict[str, int]]:
        """Returns bytes by device and kind; see `FusedOptimizer.memory`."""
        kinds = {
            "variables": self.variables,
            "slots": [x for slot in self.built_slots.values() for x in slot],
            "master_weights": self.masters,
            "averages": self.averages,
            "accumulators": self.accumulators,
            "missed_steps": [*self.since, *self.coasting],
            "working_copies": self.working_copies,
            "other": self.list_all(),
        }
        found: dict[str, dict[str, int]] = collections.defaultdict(dict)
        seen: set[int] = set()
        copies = (
            (kind, copy)
            for kind, variables in kinds.items()
            for variable in variables
            if variable is not None
            for copy in access.copies_of(variable)
        )
        for kind, copy in copies:
            # A variable counts once, as the first kind that it is of.
            if id(copy) in seen:
                continue
            seen.add(id(copy))
            spec = tf.DeviceSpec.from_string(copy.device)
            name = f"{spec.device_type}:{spec.device_index}"
            if spec.job not in (None, "localhost"):
                name = f"/job:{spec.job}/task:{spec.task}/{name}"
            of_device = found[name]
            of_device[kind] = of_device.get(kind, 0) + bytes_of(copy)
        return dict(found)
