"""Rows of lazy tables that catch up with the steps that they missed."""

from __future__ import annotations

import tensorflow as tf

from tf_opt.python.functional import arithmetic, coasting
from tf_opt.python.functional.arithmetic import Flag, Scalar, both, choose, cond
from tf_opt.python.functional.stochastic_rounding import (
    COASTING,
    FIRST_SLOT,
    VARIABLE,
)
from tf_opt.python.functional.update import Update
from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.state.storage import Rounding, Weight
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.tensorflow_internals import inside_xla


class WaitingTable:
    """One table in a composed step."""

    def __init__(
        self,
        state: OptimizerState,
        rounding: Rounding,
        index: int,
        variable: Variable,
        update: Update,
    ) -> None:
        """Prepares the steps of a table, given the update of its rows."""
        self._state = state
        self._rounding = rounding
        self._index = index
        self._variable = variable
        self._update = update
        self._slots = state.slots_of(index)
        self._since = state.since[index]
        self._coasting = state.coasting[index]
        self._missed = update.missed()

    def catch_up(self, rows: tf.Tensor | None, enabled: Flag) -> None:
        """Lets rows catch up, or all rows if `rows` is None.

        Does so with all rows, too, if there is no room for another step.
        """
        if rows is None:
            self._catch_up_all(enabled)
            return
        is_full = coasting.is_full(access.value_of(self._coasting))
        if not inside_xla():
            cond(is_full, lambda: self._catch_up_all(enabled))
        else:
            # XLA copies the table for a condition, but not for a loop.
            def once(_: tf.Tensor) -> list[bool]:
                self._catch_up_all(enabled)
                return [False]

            tf.while_loop(lambda due: due, once, [both(enabled, is_full)])
        self._catch_up(rows, enabled)

    def _catch_up_all(self, enabled: Flag) -> None:
        self._catch_up(None, enabled)
        for variable in (self._since, self._coasting):
            old = access.value_of(variable)
            access.assign(variable, choose(enabled, tf.zeros_like(old), old))

    def _catch_up(self, rows: tf.Tensor | None, enabled: Flag) -> None:
        entries = access.value_of(self._coasting)
        since = tf.cast(access.read_rows(self._since, rows), tf.int32)
        waits = (since >= 0) & (since < coasting.count(entries))
        missed = tf.gather(entries, tf.where(waits, since, 0))
        weight = Weight(self._state, self._index, self._variable, rows)
        old = [access.read_rows(slot, rows) for slot in self._slots]
        value, *new = coasting.coast(missed, self._missed, weight.value, old)

        def changes(values: tf.Tensor) -> Flag:
            return both(enabled, arithmetic.of_rows(waits, values))

        stream = COASTING + VARIABLE
        weight.write(value, changes(value), self._rounding, stream=stream)
        for k, (slot, before, after) in enumerate(
            zip(self._slots, old, new, strict=True)
        ):
            stream = COASTING + FIRST_SLOT + k
            rounded = self._rounding(
                self._index, stream, after, before.dtype, rows
            )
            new_slot = choose(changes(before), rounded, before)
            access.write_rows(slot, rows, new_slot)

    def miss(self, weight_decay: Scalar, enabled: Flag) -> None:
        """Lets all rows miss this step; `mark` then excepts some of them."""
        entries = access.value_of(self._coasting)
        new = coasting.add(
            entries,
            coasting.count(entries),
            self._missed,
            self._update.kept_by(weight_decay),
        )
        access.assign(self._coasting, choose(enabled, new, entries))

    def mark(
        self, rows: tf.Tensor | None, occurs: tf.Tensor | None, enabled: Flag
    ) -> None:
        """Marks rows as up to date: `rows`, or those that occur."""
        count = coasting.count(access.value_of(self._coasting))
        old = access.read_rows(self._since, rows)
        changes = enabled if occurs is None else both(enabled, occurs)
        new = tf.fill(tf.shape(old), tf.cast(count, old.dtype))
        access.write_rows(self._since, rows, choose(changes, new, old))
