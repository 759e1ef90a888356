"""How an optimizer rounds what it stores in fewer bits than it computes in."""

from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import stochastic_rounding
from tf_opt.python.functional import storage_rounding
from tf_opt.python.keras_internals import Variable
from tf_opt.python.keras_internals import next_seed
from tf_opt.python.optimizers import local_state
from tf_opt.python.optimizers import validation

if TYPE_CHECKING:
    from tf_opt.python.optimizers.fused_optimizer import FusedOptimizer
    from tf_opt.python.optimizers.step_plan import Bucket

STATE_DTYPES = ("bfloat16", "float32")


def standard_state_dtype(dtype: Any) -> str | None:
    """The name of what a constructor was given as `state_dtype`.

    Raises:
        ValueError: If it is none that a state may have.
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
    """The seed that is used; Keras' next one only where bits are needed.

    To ask for one where none is would change what the user's layers draw.
    """
    validation.check_seed(seed)
    if seed is not None:
        return int(seed)
    if stochastic_rounding or state_dtype == "bfloat16":
        return next_seed()
    return None


def state_dtype_of(optimizer: FusedOptimizer, variable: Variable) -> tf.DType:
    """In which type a variable's moments and averages are stored.

    Raises:
        ValueError: If the variable is complex and the state's type was said.
    """
    dtype = arithmetic.slot_dtype(variable.dtype)
    if optimizer.state_dtype is None:
        return dtype
    if dtype.is_complex:
        raise ValueError(
            "`state_dtype` must be None for complex variables. Received: "
            f"state_dtype={optimizer.state_dtype!r}, and a variable of "
            f"{dtype.name}"
        )
    return tf.dtypes.as_dtype(optimizer.state_dtype)


def needs_bits(optimizer: FusedOptimizer) -> bool:
    """Whether anything is rounded at random."""
    return optimizer.stochastic_rounding or optimizer.state_dtype == "bfloat16"


def of_launch(
    optimizer: FusedOptimizer,
    bucket: Bucket,
    iteration: int | tf.Tensor | None = None,
) -> dict[str, Any]:
    """What a frame says of rounding, for a launch of the custom op.

    Args:
        optimizer: The optimizer.
        bucket: What is updated.
        iteration: How many steps there were before; None: that is read here,
            if anything depends on it.

    Returns:
        Fields of a `StepFrame`; none if nothing but to be cast is stored.
    """
    fields: dict[str, Any] = {}
    if bucket.lists["master_weights"]:
        fields["master_weights"] = bucket.lists["master_weights"]
    if needs_bits(optimizer):
        if iteration is None:
            iteration = local_state.number(optimizer._iterations)
        fields.update(
            variable_numbers=np.array(bucket.indices, np.float64),
            iteration=iteration,
            stochastic_rounding=optimizer.stochastic_rounding,
            seed=optimizer.seed,
        )
    return fields


class Rounding:
    """The rounding of one step, in the composed implementation."""

    def __init__(self, optimizer: FusedOptimizer) -> None:
        self._optimizer = optimizer
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
        """A variable's new value, as it is stored.

        Args:
            index: Where the variable stands among the optimizer's.
            value: The value in the arithmetic's type.
            dtype: The variable's type.
            rows: Of which rows it is; None: of the whole variable.
            stream: Which random bits.
        """
        if not self._optimizer.stochastic_rounding:
            return tf.cast(value, dtype)
        return self._at_random(index, stream, value, dtype, rows)

    def average(
        self,
        index: int,
        value: tf.Tensor,
        dtype: tf.DType,
        rows: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """An average's, likewise."""
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
        """That of the rule's k-th slot, likewise."""
        if k in self._optimizer._slots_rounded_to_nearest:
            return tf.cast(value, dtype)
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
        optimizer = self._optimizer
        if self._key is None:
            self._key = stochastic_rounding.key_of_step(
                optimizer.seed, local_state.number(optimizer._iterations)
            )
        return stochastic_rounding.round_stochastically(
            value,
            dtype,
            stochastic_rounding.key_of_stream(self._key, index, stream),
            shape=optimizer._trainable_variables[index].shape,
            rows=rows,
        )
