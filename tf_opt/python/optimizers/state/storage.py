"""Rounding of what is stored in 16 bits, and master weights.

Master weights are float32 copies of 16-bit variables. A step computes on the
master weight and writes it, rounded, to the variable. Code that assigns to the
variable doesn't know of the master weight. So a step first compares: where the
variable isn't the rounded master weight, the variable counts.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args

import keras
import tensorflow as tf

from tf_opt.python.functional import (
    arithmetic,
    stochastic_rounding,
    storage_rounding,
)
from tf_opt.python.functional.arithmetic import Flag, choose
from tf_opt.python.functional.checks import require
from tf_opt.python.keras_internals import (
    Variable,
    is_overwritten_by_gradient,
    tf_variable,
)
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.values import variables as access

_DtypeName = Literal["bfloat16", "float32"]
StateDtype = _DtypeName | tf.DType


def state_dtype_of(variable: Variable, state_dtype: str | None) -> tf.DType:
    """Returns the type of a variable's moments and averages."""
    if state_dtype is None:
        return arithmetic.slot_dtype(variable.dtype)
    return tf.dtypes.as_dtype(state_dtype)


def standard_state_dtype(dtype: Any) -> str | None:
    """Returns the name of a type given as `state_dtype`, and checks it."""
    if dtype is None:
        return None
    try:
        name = keras.backend.standardize_dtype(dtype)
    except (TypeError, ValueError):
        name = None
    names = get_args(_DtypeName)
    allowed = f"None or one of {', '.join(map(repr, names))}"
    require(name in names, "state_dtype", dtype, allowed)
    return name


@dataclasses.dataclass(frozen=True)
class Rounding:
    """The rounding of one step, in the composed implementation.

    Moments and averages of 16 bits are rounded at random, and variables if
    `variables_at_random` is true. `seed` is that of the random bits.
    """

    seed: int | None
    variables_at_random: bool
    state: OptimizerState
    _once: arithmetic.OncePerGraph = dataclasses.field(
        default_factory=arithmetic.OncePerGraph, init=False
    )

    def __call__(
        self,
        index: int,
        stream: int,
        value: tf.Tensor,
        dtype: tf.DType,
        rows: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Rounds a new value of a variable, a slot or an average.

        `value` has the arithmetic type, and `index` is that of the model
        variable. If `rows` isn't None, it holds only these rows.
        """
        is_state = (
            stream % stochastic_rounding.COASTING >= stochastic_rounding.AVERAGE
        )
        at_random = is_state or self.variables_at_random
        if not (at_random and storage_rounding.is_16_bit(dtype)):
            return tf.cast(value, dtype)
        step_key = self._once(
            "key",
            lambda: stochastic_rounding.key_of_step(
                self.seed, access.as_number(self.state.iterations)
            ),
        )
        key = stochastic_rounding.key_of_stream(step_key, index, stream)
        shape = self.state.variables[index].shape
        bits = stochastic_rounding.bits_of(key, shape, rows)
        return storage_rounding.at_random(value, dtype, bits)


def has_master(variable: Variable) -> bool:
    """Returns whether `master_weights=True` makes a copy of this variable."""
    is_16_bit = storage_rounding.is_16_bit(variable.dtype)
    return is_16_bit and not is_overwritten_by_gradient(variable)


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
        """Reads the variable, or a replica's copy of it.

        If `rows` isn't None, reads and writes only these rows.
        """
        if variable is None:
            (variable,) = state.updated([state.variables[index]])
        self._variable = tf_variable(variable)
        self._master = state.masters[index] if state.masters else None
        self._index = index
        self._rows = rows
        self.stored = self.value = access.read_rows(self._variable, rows)
        if self._master is not None:
            master = access.read_rows(self._master, rows)
            rounded = storage_rounding.to_nearest(master, self.stored.dtype)
            self.value = tf.where(
                storage_rounding.is_same(rounded, self.stored),
                master,
                tf.cast(self.stored, master.dtype),
            )
            self._stored_master = master

    def write(
        self,
        value: tf.Tensor,
        changes: Flag,
        rounding: Rounding,
        *,
        stream: int = stochastic_rounding.VARIABLE,
    ) -> None:
        """Assigns a new value to the variable and its master weight.

        `changes` tells where to assign; it broadcasts to `value`, which has the
        arithmetic type.
        """
        dtype, rows = self.stored.dtype, self._rows
        if self._master is None:
            rounded = rounding(self._index, stream, value, dtype, rows)
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
    constraint, index = variable.constraint, state.index_of(variable)
    if state.working_copies:
        variable = state.working_copies[index]
    with state.on_device(index):
        if state.masters and state.masters[index] is not None:
            weight = Weight(state, index, variable)
            new = tf.convert_to_tensor(constraint(weight.value))
            weight.write(new, enabled, rounding)
            return
        old = tf.convert_to_tensor(variable)
        new = tf.convert_to_tensor(constraint(variable))
        access.assign(variable, choose(enabled, new, old))
