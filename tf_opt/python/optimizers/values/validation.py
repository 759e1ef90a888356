"""Checks of arguments; each error names argument and value."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args

import numpy as np
import tensorflow as tf

from tf_opt.python.functional.checks import require
from tf_opt.python.functional.rule_spec import (
    ANY,
    FRACTION,
    GREATER_THAN_0,
    NON_NEGATIVE,
    Number,
    Range,
)
from tf_opt.python.keras_internals import (
    Variable,
    is_overwritten_by_gradient,
    path_of,
)
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.gradients import are_rows, as_indices
from tf_opt.python.tensorflow_internals import inside_xla


def _is_number(value: Any) -> bool:
    """Whether a value is a real number; bools aren't."""
    types = (int, float, np.integer, np.floating)
    return isinstance(value, types) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    """Whether a value is an integer; bools aren't."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _plain(number: Any) -> Any:
    """Returns Python's number: NumPy rounds a bound to its number's type."""
    return number.item() if isinstance(number, np.generic) else number


def check_none_is_overwritten(variables: Sequence[Variable]) -> None:
    """Raises if a gradient overwrites its variable, as for float8 scales.

    Keras overwrites such variables before it is known if the step is skipped.
    """
    for variable in variables:
        if is_overwritten_by_gradient(variable):
            raise ValueError(
                "Steps can't be skipped with float8 variables: "
                f"`{path_of(variable)}` is overwritten with its gradient. "
                "Leave out `skip_nonfinite=True`, and use "
                "keras.optimizers.LossScaleOptimizer in place of "
                "tf_opt.LossScaleOptimizer."
            )


def check_number(name: str, value: Any, number: Number) -> None:
    """Raises unless `value` is such a number, finite unless it may not be.

    It may be a scalar variable, which each step reads; here its value counts.
    """
    if value is None and number.may_be_none:
        return
    if number.is_static:
        check_positive_integer(name, value)
        return
    known = value
    if isinstance(value, (*get_args(Variable), tf.Tensor)):
        dtype = tf.as_dtype(value.dtype)
        if tuple(value.shape) != () or not (
            dtype.is_floating or dtype.is_integer
        ):
            known = None
        elif tf.executing_eagerly():
            # A strategy's variable isn't a number itself.
            known = float(tf.convert_to_tensor(value))
        else:
            # It isn't known while a step is traced.
            return
    is_right = (
        _is_number(known)
        and number.range.has(_plain(known))
        and (number.may_be_infinite or math.isfinite(known))
    )
    allowed = "a number or scalar variable"
    if number.range != ANY:
        allowed += f" {number.range.text}"
    if number.may_be_none:
        allowed += ", or None"
    require(is_right, name, value, allowed)


def check_fixed_number(name: str, value: float, range_: Range) -> None:
    """Raises unless `value` is a finite number in a range, and no variable."""
    is_right = _is_number(value) and value < math.inf
    is_right = is_right and range_.has(_plain(value))
    require(is_right, name, value, f"a number {range_.text}")


WEIGHT_DECAY = Number("weight_decay", NON_NEGATIVE, may_be_none=True)
EMA_MOMENTUM = Number("ema_momentum", FRACTION)
LOSS_SCALE_FACTOR = Number(
    "loss_scale_factor", GREATER_THAN_0, may_be_none=True
)
_LEARNING_RATE = Range(
    ">= 0 (`maximize=True` ascends), a `LearningRateSchedule` or a callable", 0
)


def check_learning_rate(learning_rate: Any) -> None:
    """Raises unless it is a float >= 0, a schedule or a callable."""
    # Keras refuses integers.
    is_right = callable(learning_rate) or (
        isinstance(learning_rate, float) and 0 <= learning_rate < math.inf
    )
    allowed = f"a float {_LEARNING_RATE.text}"
    require(is_right, "learning_rate", learning_rate, allowed)


def check_assigned_learning_rate(name: str, value: Any) -> None:
    """Raises unless it may replace an optimizer's learning rate.

    That may be a number of any type, unlike in the constructor.
    """
    if not callable(value):
        check_number(name, value, Number(name, _LEARNING_RATE))


def clip_bound(name: str) -> Number:
    """Returns the bound for clipping of this name."""
    allowed = Range("(<= 0 and infinity don't clip)")
    return Number(name, allowed, may_be_infinite=True, may_be_none=True)


def checks_of(numbers: Iterable[Number]) -> dict[str, Callable]:
    """Returns the check of each number, by name."""
    return {x.name: functools.partial(check_number, number=x) for x in numbers}


def check_positive_integer(name: str, value: int) -> None:
    """Raises unless `value` is an integer >= 1."""
    require(_is_integer(value) and value >= 1, name, value, "an integer >= 1")


def check_count(name: str, value: Any, least: int) -> None:
    """Raises unless `value` is None, 0 (as None) or >= `least`."""
    if value is None or (_is_number(value) and value == 0):
        return
    is_right = _is_integer(value) and least <= value < 2**63
    allowed = f"an integer >= {least} of 64 bits, or None"
    require(is_right, name, value, allowed)


def check_seed(name: str, seed: int | None) -> None:
    """Raises unless `seed` is None or an integer of 64 bits."""
    is_right = seed is None or (_is_integer(seed) and -(2**63) <= seed < 2**63)
    require(is_right, name, seed, "an integer of 64 bits, or None")


def check_one_of(name: str, value: str, choices: Sequence[str]) -> None:
    """Raises unless `value` is one of `choices`."""
    is_right = isinstance(value, str) and value in choices
    require(is_right, name, value, f"one of {', '.join(map(repr, choices))}")


def as_rows(name: str, rows: Any, table: Variable) -> tf.Tensor:
    """Converts indices of a table's rows, of any shape, to a vector.

    Raises:
        ValueError: If they aren't integers.
        tf.errors.InvalidArgumentError: If the table doesn't have a row, except
            inside XLA, and on a GPU, where the host would wait for the check.
    """
    if isinstance(rows, tf.SparseTensor):
        rows = rows.values
    elif isinstance(rows, tf.RaggedTensor):
        rows = rows.flat_values
    try:
        tensor = tf.convert_to_tensor(rows)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must be a tensor of integers. Received: {rows!r}"
        ) from error
    # An empty list becomes float32.
    if not tensor.dtype.is_integer and tensor.shape.num_elements() != 0:
        raise ValueError(
            f"`{name}` must be integers. Received: {tensor.dtype.name}"
        )
    tensor = tf.reshape(as_indices(tensor, table), [-1])
    if inside_xla() or access.on_gpu(table):
        return tensor
    check = tf.debugging.Assert(
        are_rows(tensor, table),
        [
            f"`{name}` must be in [0, {table.shape[0]}), the rows of "
            f"`{path_of(table)}`. Received, least and most:",
            tf.reduce_min(tensor),
            tf.reduce_max(tensor),
        ],
    )
    with tf.control_dependencies([check]):
        return tf.identity(tensor)
