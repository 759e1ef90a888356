"""Rounding of variables, slots and averages that are stored in 16 bits."""

from __future__ import annotations

from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import stochastic_rounding
from tf_opt.python.functional import storage_rounding
from tf_opt.python.keras_internals import Variable
from tf_opt.python.keras_internals import next_seed
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.values import validation
from tf_opt.python.optimizers.values import variables as access

STATE_DTYPES = ("bfloat16", "float32")


class RoundingSettings(NamedTuple):
    """Options of rounding.

    Attributes:
        master_weights: Whether 16-bit variables have float32 copies.
        stochastic_rounding: Whether 16-bit variables are rounded at random.
        seed: The seed of the random bits; None if no bits are needed.
        state_dtype: The name of the type of moments and averages, or None.
    """

    master_weights: bool
    stochastic_rounding: bool
    seed: int | None
    state_dtype: str | None

    @property
    def needs_bits(self) -> bool:
        """Whether anything is rounded at random."""
        return self.stochastic_rounding or self.state_dtype == "bfloat16"

    def changes_storage_of(self, variable: Variable) -> bool:
        """Returns whether a variable isn't stored by a plain cast."""
        return (
            self.master_weights or self.stochastic_rounding
        ) and storage_rounding.is_16_bit(variable.dtype)

    def state_dtype_of(self, variable: Variable) -> tf.DType:
        """Returns the type of a variable's moments and averages.

        Raises:
            ValueError: If the variable is complex and `state_dtype` is set.
        """
        dtype = arithmetic.slot_dtype(variable.dtype)
        if self.state_dtype is None:
            return dtype
        if dtype.is_complex:
            raise ValueError(
                "`state_dtype` must be None for complex variables. Received: "
                f"state_dtype={self.state_dtype!r}, and a variable of "
                f"{dtype.name}"
            )
        return tf.dtypes.as_dtype(self.state_dtype)


def standard_state_dtype(dtype: Any) -> str | None:
    """Returns the name of the type given as `state_dtype`.

    Raises:
        ValueError: If state can't have this type.
    """
    if dtype is None:
        return None
    try:
        name = keras.backend.standardize_dtype(dtype)
    except (TypeError, ValueError):
        name = None
    if name not in STATE_DTYPES:
        listed = ", ".join(map(repr, STATE_DTYPES))
        raise ValueError(
            f"`state_dtype` must be None or one of {listed}. Received: "
            f"state_dtype={dtype!r}"
        )
    return name


def seed_for(
    seed: int | None, *, stochastic_rounding: bool, state_dtype: str | None
) -> int | None:
    """Returns the seed to use; draws Keras' next one only if bits are needed.

    An unneeded draw would change the random numbers of the user's layers.
    """
    validation.check_seed(seed)
    if seed is not None:
        return int(seed)
    if stochastic_rounding or state_dtype == "bfloat16":
        return next_seed()
    return None


class Rounding:
    """The rounding of one step, in the composed implementation."""

    def __init__(
        self, settings: RoundingSettings, state: OptimizerState
    ) -> None:
        self._settings = settings
        self._state = state
        self._key: stochastic_rounding.Integer | None = None

    def variable(
        self,
        index: int,
        value: tf.Tensor,
        dtype: tf.DType,
        rows: tf.Tensor | None = None,
        *,
        stream: int = stochastic_rounding.VARIABLE,
    ) -> tf.Tensor:
        """Rounds a variable's new value to the type it is stored in.

        Args:
            index: The variable's index.
            value: The value in the arithmetic type.
            dtype: The variable's type.
            rows: The rows that `value` holds; None: all of the variable.
            stream: The stream of random bits.
        """
        if not self._settings.stochastic_rounding:
            return tf.cast(value, dtype)
        return self._at_random(index, stream, value, dtype, rows)

    def average(
        self,
        index: int,
        value: tf.Tensor,
        dtype: tf.DType,
        rows: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Rounds an average's new value; arguments as in `variable`."""
        stream = stochastic_rounding.AVERAGE
        return self._at_random(index, stream, value, dtype, rows)

    def slot(
        self,
        index: int,
        k: int,
        value: tf.Tensor,
        dtype: tf.DType,
        rows: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Rounds the rule's k-th slot; arguments as in `variable`."""
        stream = stochastic_rounding.FIRST_SLOT + k
        return self._at_random(index, stream, value, dtype, rows)

    def _at_random(
        self,
        index: int,
        stream: int,
        value: tf.Tensor,
        dtype: tf.DType,
        rows: tf.Tensor | None,
    ) -> tf.Tensor:
        if not storage_rounding.is_16_bit(dtype):
            return tf.cast(value, dtype)
        if self._key is None:
            self._key = stochastic_rounding.key_of_step(
                self._settings.seed, access.as_number(self._state.iterations)
            )
        return stochastic_rounding.round_stochastically(
            value,
            dtype,
            stochastic_rounding.key_of_stream(self._key, index, stream),
            shape=self._state.variables[index].shape,
            rows=rows,
        )
