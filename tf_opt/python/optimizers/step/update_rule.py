"""Rule of an optimizer, as one step uses it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.rule_spec import RuleSpec
from tf_opt.python.keras_internals import Variable
from tf_opt.python.ops.resource_apply import ResourceApplyOp
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.flags import Flag

Scalars = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class UpdateRule:
    """One optimizer's rule, with the hyperparameters of one step.

    A subclass overrides the methods in which its rule differs.

    Attributes:
        spec: The rule.
        hyperparameters: The constants that op and functional rule take.
    """

    spec: RuleSpec
    hyperparameters: Mapping[str, Any]

    @property
    def op(self) -> ResourceApplyOp:
        """The custom op for dense gradients."""
        return ResourceApplyOp(self.spec.op_name)

    @property
    def takes_whole_slots(self) -> bool:
        """Whether `read_slots` returns each slot whole."""
        return not any(slot.row_input for slot in self.spec.slots)

    @property
    def reads_other_variables(self) -> bool:
        """Whether `begin` reads variables without a gradient."""
        return False

    def scalars(
        self, learning_rate: Scalar, updates: int | tf.Tensor
    ) -> Scalars:
        """Returns the step's scalars, given how many updates came before."""
        return {
            "step": updates + 1,
            "learning_rate": access.as_number(learning_rate),
        }

    def numbers(self, scalars: Scalars) -> Scalars:
        """Returns the numbers and modes that the functional rule takes."""
        known = {**self.hyperparameters, **scalars}
        return {name: known[name] for name in self.spec.bound}

    def scaled(self, factor: Scalar, scalars: Scalars) -> Scalars:
        """Returns the scalars with the learning rate times `factor`."""
        learning_rate = factor * arithmetic.float64(scalars["learning_rate"])
        return {**scalars, "learning_rate": learning_rate}

    def begin(
        self,
        state: OptimizerState,
        variables: Sequence[tf.Variable],
        commits: Flag,
    ) -> None:
        """Hook that runs before a step; `commits` tells if the step counts."""

    def next_shared(
        self, scalars: Scalars
    ) -> Sequence[tuple[keras.Variable, tf.Tensor]]:
        """Returns new values of variables that all model variables share."""
        return ()

    def read_slots(
        self,
        slots: Sequence[Variable],
        rows: tf.Tensor | None,
        scalars: Scalars,
    ) -> list[tf.Tensor]:
        """Reads the slots of one variable for the functional rule.

        If `rows` isn't None, only these rows are updated.
        """
        return [access.read_rows(slot, rows) for slot in slots]

    def write_slots(
        self,
        slots: Sequence[Variable],
        values: Sequence[tf.Tensor],
        rows: tf.Tensor | None,
        scalars: Scalars,
    ) -> None:
        """Assigns the values that the functional rule returned."""
        for slot, value in zip(slots, values, strict=True):
            access.write_rows(slot, rows, value)
