"""Rule of an optimizer, as one step uses it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional.arithmetic import Scalar, choose
from tf_opt.python.functional.rule_spec import ELEMENTWISE, Form, RuleSpec
from tf_opt.python.keras_internals import Number, Variable
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.state.storage import Weight
from tf_opt.python.optimizers.values import variables as access

Scalars = dict[str, Any]


# The least step size that differs from 0.
_TINY = np.finfo(np.float64).tiny


@dataclasses.dataclass(frozen=True)
class UpdateRule:
    """One optimizer's rule, with the hyperparameters of one step.

    A subclass overrides the methods in which its rule differs.

    Attributes:
        spec: The rule.
        hyperparameters: The constants that op and functional rule take.
        shared: The variables of `spec.shared`, by name.
    """

    spec: RuleSpec
    hyperparameters: Mapping[str, Any]
    shared: Mapping[str, keras.Variable]

    def of(self, form: Form) -> UpdateRule:
        """Returns the rule in this form."""
        if form == ELEMENTWISE:
            return self
        return dataclasses.replace(self, spec=self.spec.forms[form])

    # ---- Numbers. ----

    def decay_and_rate(
        self, decay: Number | None
    ) -> tuple[Number | None, Scalar | None]:
        """Returns the weight decay of this form, given the optimizer's.

        And the factor of its learning rate, if any.
        """
        return decay, None

    def scalars(
        self, learning_rate: Scalar, updates: int | tf.Tensor
    ) -> Scalars:
        """Returns the step's scalars, given how many updates came before."""
        learning_rate = access.as_number(learning_rate)
        scalars = {"step": updates + 1, "learning_rate": learning_rate}
        for shared in self.spec.shared:
            value = access.as_number(self.shared[shared.name])
            if shared.first is None:
                value = choose(arithmetic.equal(value, 0), learning_rate, value)
            scalars[shared.name] = value
        return scalars

    def numbers(self, scalars: Scalars) -> Scalars:
        """Returns the numbers and modes that the functional rule takes."""
        known = {**self.hyperparameters, **scalars}
        return {name: known[name] for name in self.spec.bound}

    def scaled(self, factor: Scalar, scalars: Scalars) -> Scalars:
        """Returns the scalars with learning rates times `factor`."""
        rates = ["learning_rate"]
        rates += [x.name for x in self.spec.shared if x.is_rate]
        return scalars | {
            name: factor * arithmetic.float64(scalars[name]) for name in rates
        }

    def next_shared(
        self,
        scalars: Scalars,
        state: OptimizerState,
        variables: Sequence[tf.Variable],
    ) -> list[tuple[Variable, Any]]:
        """Returns new values of what all variables share, and other slots.

        `variables` are those that the step updates.
        """
        if not self.spec.shared:
            return []
        averages = self._others_start(scalars, state, variables)
        numbers = self.numbers(scalars)
        shared: list[tuple[Variable, Any]] = []
        for each in self.spec.shared:
            value = each.next(**numbers)
            if each.first is None:
                # 0 would mean that no step has run yet.
                maximum = max if isinstance(value, float) else tf.maximum
                value = maximum(value, _TINY)
            shared.append((self.shared[each.name], value))
        return averages + shared

    def _others_start(
        self,
        scalars: Scalars,
        state: OptimizerState,
        variables: Sequence[tf.Variable],
    ) -> list[tuple[Variable, tf.Tensor]]:
        """Returns the slots that start as variables without a gradient.

        In the first step they become their variables, which may have been
        assigned after `build`. The rule sets those of other variables.
        """
        if self.spec.average is None:
            return []
        begins = arithmetic.equal(scalars["step"], 1)
        if begins is False:
            return []
        updated = set(map(state.index_of, variables))
        found = []
        for index, slot in enumerate(state.slots[self.spec.average]):
            if slot is not None and index not in updated:
                value = tf.cast(Weight(state, index).value, slot.dtype)
                found.append((slot, choose(begins, value, slot)))
        return found
