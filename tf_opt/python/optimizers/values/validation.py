"""Checks of constructor arguments; each error names argument and value."""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf


def _is_number(value: Any) -> bool:
    """Whether a value is a real number; bools aren't."""
    return isinstance(
        value, (int, float, np.integer, np.floating)
    ) and not isinstance(value, bool)


def check_variables(variables: Sequence[Any]) -> None:
    """Raises unless all values are variables.

    Args:
        variables: The `trainable_variables` of a step.

    Raises:
        TypeError: If a value isn't a variable.
    """
    for i, variable in enumerate(variables):
        if not isinstance(variable, (keras.Variable, tf.Variable)):
            raise TypeError(
                "`trainable_variables` must be variables. Received: "
                f"trainable_variables[{i}]={variable!r} "
                f"({type(variable).__name__})"
            )


def check_in_unit_interval(name: str, value: float) -> None:
    """Raises unless `value` is in [0, 1), as the decay of an average is."""
    if not _is_number(value) or not 0 <= value < 1:
        raise ValueError(
            f"`{name}` must be a number in [0, 1). Received: {name}={value!r}"
        )


def check_fraction(name: str, value: float) -> None:
    """Raises unless `value` is in [0, 1]."""
    if not _is_number(value) or not 0 <= value <= 1:
        raise ValueError(
            f"`{name}` must be a number in [0, 1]. Received: {name}={value!r}"
        )


def check_not_negative(
    name: str, value: float, *, may_be_infinite: bool = False
) -> None:
    """Raises unless `value` is a number >= 0 and, by default, finite."""
    if (
        not _is_number(value)
        or not value >= 0
        or (value == math.inf and not may_be_infinite)
    ):
        raise ValueError(
            f"`{name}` must be a number >= 0. Received: {name}={value!r}"
        )


def check_learning_rate(learning_rate: Any) -> None:
    """Raises unless it is a float >= 0, a schedule or a callable."""
    # Keras refuses integers.
    if callable(learning_rate) or (
        isinstance(learning_rate, float) and 0 <= learning_rate < math.inf
    ):
        return
    raise ValueError(
        "`learning_rate` must be a float >= 0, a `LearningRateSchedule` or a "
        f"callable. Received: learning_rate={learning_rate!r}"
    )


def check_weight_decay(weight_decay: Any) -> None:
    """Raises unless it is None, a number >= 0 or a scalar variable."""
    if weight_decay is None:
        return
    if isinstance(weight_decay, (tf.Variable, keras.Variable)):
        if tuple(weight_decay.shape) != ():
            raise ValueError(
                "`weight_decay` must be a scalar. Received: a variable of "
                f"shape {tuple(weight_decay.shape)}"
            )
        return
    check_not_negative("weight_decay", weight_decay)


def check_positive_integer(name: str, value: int) -> None:
    """Raises unless `value` is an integer >= 1."""
    if (
        not isinstance(value, (int, np.integer))
        or isinstance(value, bool)
        or value < 1
    ):
        raise ValueError(
            f"`{name}` must be an integer >= 1. Received: {name}={value!r}"
        )


def check_positive_number(name: str, value: float) -> None:
    """Raises unless `value` is a finite number > 0."""
    if not _is_number(value) or not 0 < value < math.inf:
        raise ValueError(
            f"`{name}` must be a number > 0. Received: {name}={value!r}"
        )


def check_boolean(name: str, value: bool) -> None:
    """Raises unless `value` is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(
            f"`{name}` must be True or False. Received: {name}={value!r}"
        )


def check_clip_norm(name: str, value: Any) -> None:
    """Raises unless `value` is None or a finite number; <= 0 doesn't clip."""
    if value is not None:
        # As in Keras, a Keras variable isn't allowed.
        _check_real(
            name,
            value,
            lambda number: number < math.inf,
            "a finite number (<= 0 doesn't clip) or None",
            holders=(tf.Variable,),
        )


def check_clip_value(name: str, value: Any) -> None:
    """Raises unless `value` is None or a number; <= 0 doesn't clip."""
    if value is not None:
        _check_real(
            name,
            value,
            lambda number: not math.isnan(number),
            "a number (<= 0 doesn't clip) or None",
            holders=(tf.Variable,),
        )


def check_ema_momentum(name: str, value: Any) -> None:
    """Raises unless `value` is in [0, 1]."""
    _check_real(
        name, value, lambda number: 0 <= number <= 1, "a number in [0, 1]"
    )


def check_loss_scale(name: str, value: Any) -> None:
    """Raises unless `value` is None or a finite number > 0."""
    if value is not None:
        _check_real(
            name,
            value,
            lambda number: 0 < number < math.inf,
            "a number > 0 or None",
        )


def _check_real(
    name: str,
    value: Any,
    is_right: Callable[[Any], bool],
    what: str,
    holders: tuple[type, ...] = (tf.Variable, keras.Variable, tf.Tensor),
) -> None:
    """Raises unless `value` is an allowed number, or may be one later.

    Args:
        name: The argument's name.
        value: A number, or an array, tensor or variable of one.
        is_right: Returns whether a number is allowed.
        what: The description of allowed values, for the error.
        holders: Types whose numbers aren't known yet: variables and the
            tensors of a graph.
    """
    number = value
    if isinstance(value, (*holders, np.ndarray, tf.__internal__.EagerTensor)):
        dtype = tf.as_dtype(value.dtype)
        if tuple(value.shape) != () or not (
            dtype.is_floating or dtype.is_integer
        ):
            number = None
        elif isinstance(value, (np.ndarray, tf.__internal__.EagerTensor)):
            number = float(value)
        else:
            return
    if not _is_number(number) or not is_right(number):
        raise ValueError(f"`{name}` must be {what}. Received: {name}={value!r}")


def check_count(name: str, value: Any, least: int) -> None:
    """Raises unless `value` is None, 0 (as None) or >= `least`."""
    if value is None or (_is_number(value) and value == 0):
        return
    if (
        not _is_number(value)
        or not isinstance(value, (int, np.integer))
        or not least <= value < 2**63
    ):
        raise ValueError(
            f"`{name}` must be an integer >= {least} of 64 bits, or None. "
            f"Received: {name}={value!r}"
        )


def check_seed(seed: int | None) -> None:
    """Raises unless `seed` is None or an integer of 64 bits."""
    if seed is None:
        return
    if (
        not isinstance(seed, (int, np.integer))
        or isinstance(seed, bool)
        or not -(2**63) <= seed < 2**63
    ):
        raise ValueError(
            "`seed` must be an integer of 64 bits, or None. Received: "
            f"seed={seed!r}"
        )


def check_one_of(name: str, value: str, choices: Sequence[str]) -> None:
    """Raises unless `value` is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ValueError(
            f"`{name}` must be one of {listed}. Received: {name}={value!r}"
        )
