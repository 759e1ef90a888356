"""The variables of a built optimizer, by the index of the model variable."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf

from tf_opt.python.keras_internals import Variable
from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.optimizers.state.unsaved_state import UnsavedState
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.flags import Flag
from tf_opt.python.optimizers.values.flags import choose

# One variable for each model variable; None for a model variable without one.
PerVariable = Sequence[keras.Variable | None]


class OptimizerState(NamedTuple):
    """Variables that a step reads and writes.

    Attributes:
        variables: The model variables.
        index_of: Returns the index of a model variable, or of a replica's copy.
        decays: For each model variable, whether weight decay applies to it.
        slots: For each slot of the rule, its variables.
        accumulators: Sums of gradients, or empty.
        averages: Moving averages of the model variables, or empty.
        masters: Master weights, or empty.
        iterations: The counter of steps.
        list_all: Returns all of the optimizer's own variables.
        unsaved: Variables that checkpoints don't contain.
    """

    variables: Sequence[Variable]
    index_of: Callable[[Variable], int]
    decays: Sequence[bool]
    slots: Sequence[PerVariable]
    accumulators: PerVariable
    averages: PerVariable
    masters: PerVariable
    iterations: keras.Variable
    list_all: Callable[[], Sequence[Variable]]
    unsaved: UnsavedState

    def slots_of(self, index: int) -> list[keras.Variable]:
        """Returns the slots of one variable, in the rule's order."""
        return [slot[index] for slot in self.slots]

    def extras(self) -> Mapping[str, PerVariable]:
        """Returns the state besides slots, by the op's names."""
        return {
            "accumulators": self.accumulators,
            "averages": self.averages,
            "master_weights": self.masters,
        }

    def commit(
        self, values: Sequence[tuple[Variable, Any]], commits: Flag
    ) -> None:
        """Assigns variables that all model variables share.

        Args:
            values: The variables with their new values.
            commits: Whether the step counts; if not, nothing changes.
        """
        if commits is False:
            return
        for variable, value in values:
            if commits is not True:
                value = tf.cast(value, tf_variable(variable).dtype)
                value = choose(commits, value, variable)
            access.assign(variable, value)

    def count(self, enabled: Flag, may_step: Flag = True) -> None:
        """Counts a step, or a skipped step. Nothing else advances counters.

        Args:
            enabled: Whether the step did anything.
            may_step: Whether anything may change at all.
        """
        if enabled is True:
            if access.has_own_handle(self.iterations):
                self.iterations.count_eagerly()
            else:
                self.iterations.assign_add(1)
            return
        counted = tf.cast(enabled, self.iterations.dtype)
        self.iterations.assign_add(counted)
        skipped = self.unsaved.skipped_steps
        if skipped is not None:
            skips = may_step & tf.logical_not(enabled)
            skips = tf.cast(skips, skipped.dtype)
            access.assign(skipped, tf.convert_to_tensor(skipped) + skips)
