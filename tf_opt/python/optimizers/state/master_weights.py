"""Master weights: float32 copies of 16-bit variables.

A step computes on the master weight and writes it, rounded, to the variable.
Code that assigns to the variable doesn't know of the master weight. So a step
first compares: where the variable isn't the rounded master weight, the variable
counts.
"""

from __future__ import annotations

import tensorflow as tf

from tf_opt.python.functional import stochastic_rounding
from tf_opt.python.functional import storage_rounding
from tf_opt.python.keras_internals import Variable
from tf_opt.python.keras_internals import is_overwritten_by_gradient
from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.state.rounding import Rounding
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.flags import Flag
from tf_opt.python.optimizers.values.flags import choose


def has_master(variable: Variable) -> bool:
    """Returns whether `master_weights=True` makes a copy of this variable."""
    return storage_rounding.is_16_bit(
        variable.dtype
    ) and not is_overwritten_by_gradient(variable)


class Weight:
    """A variable, or rows of it, with its master weight if it has one.

    Attributes:
        stored: The variable's value.
        value: The value to compute with: the master weight's or `stored`.
    """

    def __init__(
        self,
        state: OptimizerState,
        index: int,
        variable: Variable | None = None,
        rows: tf.Tensor | None = None,
    ) -> None:
        """Reads the variable.

        Args:
            state: The optimizer's state.
            index: The variable's index.
            variable: The variable, or a replica's copy of it.
            rows: The rows to read; None: all of it.
        """
        if variable is None:
            variable = state.variables[index]
        self._variable = tf_variable(variable)
        self._master = state.masters[index] if state.masters else None
        self._index = index
        self._rows = rows
        self.stored = self.value = access.read_rows(self._variable, rows)
        if self._master is not None:
            self._stored_master = access.read_rows(self._master, rows)
            rounded = storage_rounding.to_nearest(
                self._stored_master, self.stored.dtype
            )
            self.value = tf.where(
                storage_rounding.is_same(rounded, self.stored),
                self._stored_master,
                tf.cast(self.stored, self._stored_master.dtype),
            )

    def write(
        self,
        value: tf.Tensor,
        changes: Flag,
        rounding: Rounding,
        *,
        stream: int = stochastic_rounding.VARIABLE,
    ) -> None:
        """Assigns a new value to the variable and its master weight.

        Args:
            value: The value, in the arithmetic type.
            changes: Where to assign; broadcasts to `value`.
            rounding: The step's rounding.
            stream: The stream of random bits.
        """
        dtype, rows = self.stored.dtype, self._rows
        if self._master is None:
            rounded = rounding.variable(
                self._index, value, dtype, rows, stream=stream
            )
        else:
            rounded = storage_rounding.to_nearest(value, dtype)
            self._write_master(value, changes)
        rounded = choose(changes, rounded, self.stored)
        access.write_rows(self._variable, rows, rounded)

    def reconcile(self, changes: Flag) -> None:
        """Stores the reconciled value as the master weight."""
        if self._master is not None:
            self._write_master(self.value, changes)

    def _write_master(self, value: tf.Tensor, changes: Flag) -> None:
        value = choose(changes, value, self._stored_master)
        access.write_rows(self._master, self._rows, value)


def constrain(
    state: OptimizerState, rounding: Rounding, variable: Variable, enabled: Flag
) -> None:
    """Applies a variable's constraint, to its master weight if it has one."""
    if variable.constraint is None:
        return
    index = state.index_of(variable)
    if state.masters and state.masters[index] is not None:
        weight = Weight(state, index, variable)
        new = tf.convert_to_tensor(variable.constraint(weight.value))
        weight.write(new, enabled, rounding)
        return
    old = tf.convert_to_tensor(variable)
    new = tf.convert_to_tensor(variable.constraint(variable))
    access.assign(variable, choose(enabled, new, old))
