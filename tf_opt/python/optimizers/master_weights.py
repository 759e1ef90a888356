"""The float32 copies of 16-bit variables that `master_weights=True` keeps.

A step computes on the copy and writes it, rounded, to the variable. Who sets
the variable otherwise doesn't know of the copy: where the variable isn't the
rounded copy, the copy is out of date and the variable counts.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import stochastic_rounding
from tf_opt.python.functional import storage_rounding
from tf_opt.python.keras_internals import Variable
from tf_opt.python.keras_internals import is_overwritten_by_gradient
from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.optimizers import local_state
from tf_opt.python.optimizers.flags import Flag
from tf_opt.python.optimizers.flags import choose
from tf_opt.python.optimizers.gradients import path_of
from tf_opt.python.optimizers.rounding import Rounding

if TYPE_CHECKING:
    from tf_opt.python.optimizers.fused_optimizer import FusedOptimizer


def _may_have_one(variable: Variable) -> bool:
    """Whether master weights are for this variable."""
    return storage_rounding.is_16_bit(
        variable.dtype
    ) and not is_overwritten_by_gradient(variable)


def add(
    optimizer: FusedOptimizer, variables: Sequence[Variable]
) -> list[keras.Variable | None]:
    """Adds the master weights, each where its variable is.

    Args:
        optimizer: The optimizer.
        variables: Its variables.

    Returns:
        For each variable its master; None where it has none.
    """

    def add_to(variable: Variable) -> keras.Variable:
        def value(shape: Sequence[int], dtype: Any) -> tf.Tensor:
            # Keras may build an optimizer while it traces a step.
            with tf.init_scope():
                return tf.cast(tf.convert_to_tensor(variable), dtype)

        return optimizer._add_slot(
            variable, "master_weight", None, value, dtype=tf.float32
        )

    return [
        add_to(variable) if _may_have_one(variable) else None
        for variable in variables
    ]


class Weight:
    """A variable, or some rows of it, as a step computes on it.

    Attributes:
        stored: What is in the variable.
        value: What the arithmetic goes on with: that, or the master weight.
    """

    def __init__(
        self,
        optimizer: FusedOptimizer,
        index: int,
        variable: Variable | None = None,
        rows: tf.Tensor | None = None,
    ) -> None:
        """Reads it.

        Args:
            optimizer: The optimizer.
            index: Where the variable stands among the optimizer's.
            variable: The variable, or a replica's copy.
            rows: Which rows; None: all of it.
        """
        if variable is None:
            variable = optimizer._trainable_variables[index]
        self._variable = tf_variable(variable)
        self._master = optimizer._masters[index] if optimizer._masters else None
        self._index = index
        self._rows = rows
        self.stored = self.value = local_state.read_rows(self._variable, rows)
        if self._master is not None:
            self._stored_master = local_state.read_rows(self._master, rows)
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
        """Assigns a new value, in the arithmetic's type.

        Args:
            value: The value.
            changes: Where it is assigned.
            rounding: How it is rounded.
            stream: By which random bits.
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
        local_state.write_rows(self._variable, rows, rounded)

    def keep(self, changes: Flag) -> None:
        """Has the master be what the arithmetic goes on with."""
        if self._master is not None:
            self._write_master(self.value, changes)

    def _write_master(self, value: tf.Tensor, changes: Flag) -> None:
        value = choose(changes, value, self._stored_master)
        local_state.write_rows(self._master, self._rows, value)


def constrain(
    optimizer: FusedOptimizer, variable: Variable, enabled: Flag
) -> None:
    """Applies a variable's constraint, to its master if it has one."""
    index = optimizer._index_of(variable)
    if optimizer._masters and optimizer._masters[index] is not None:
        weight = Weight(optimizer, index, variable)
        new = tf.convert_to_tensor(variable.constraint(weight.value))
        weight.write(new, enabled, Rounding(optimizer))
        return
    old = tf.convert_to_tensor(variable)
    new = tf.convert_to_tensor(variable.constraint(variable))
    local_state.assign(variable, choose(enabled, new, old))


# ---- A rule that isn't ours, in `update_step`. ----


def is_precise(optimizer: FusedOptimizer, variable: Variable) -> bool:
    """Whether a variable is stored with more care than a cast takes."""
    asks = optimizer.master_weights or optimizer.stochastic_rounding
    return asks and _may_have_one(variable)


def decay(optimizer: FusedOptimizer, variable: Variable) -> None:
    """Decoupled weight decay before a rule that isn't ours."""
    if not optimizer._decays(variable) or optimizer.weight_decay is None:
        return
    weight = Weight(optimizer, optimizer._index_of(variable), variable)
    factor = 1 - arithmetic.float64(optimizer.learning_rate) * (
        arithmetic.float64(optimizer.weight_decay)
    )
    value = tf.cast(weight.value, tf.float32)
    weight.write(
        tf.cast(factor, value.dtype) * value,
        True,
        Rounding(optimizer),
        stream=stochastic_rounding.DECAYED_VARIABLE,
    )


class _Updated(threading.local):
    """Whether our own rule has updated something, in this thread."""

    ours = False


_updated = _Updated()


def note_own_update() -> None:
    """Notes that our own rule updates a variable."""
    _updated.ours = True


@contextlib.contextmanager
def only_own_update(
    optimizer: FusedOptimizer, variable: Variable
) -> Iterator[None]:
    """Within it a variable is to be updated by our own rule.

    Raises:
        ValueError: If it isn't, and the user asked how it is rounded.
    """
    _updated.ours = False
    yield
    if _updated.ours or not is_precise(optimizer, variable):
        return
    argument = (
        "master_weights" if optimizer.master_weights else "stochastic_rounding"
    )
    dtype = tf.dtypes.as_dtype(variable.dtype).name
    raise ValueError(
        f"`{argument}` must be False where `update_step` updates a variable of "
        f"{dtype} itself, as that of {type(optimizer).__name__} does with "
        f"`{path_of(variable)}`, and not by `super().update_step`. Received: "
        f"{argument}=True"
    )
