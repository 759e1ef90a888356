"""Checks of constructor arguments: each error names argument and value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf


def _is_number(value: Any) -> bool:
    """Whether it is a real number. True is none: it is in another's place."""
    return isinstance(
        value, (int, float, np.integer, np.floating)
    ) and not isinstance(value, bool)


def check_variables(variables: Sequence[Any]) -> None:
    """Raises unless all are variables.

    Args:
        variables: What a step is given as `trainable_variables`.

    Raises:
        TypeError: If one is something else.
    """
    for i, variable in enumerate(variables):
        if not isinstance(variable, (keras.Variable, tf.Variable)):
            raise TypeError(
                "`trainable_variables` must be variables. Received: "
                f"trainable_variables[{i}]={variable!r} "
                f"({type(variable).__name__})"
            )


def check_in_unit_interval(name: str, value: float) -> None:
    """Raises unless `value` is in [0, 1): the decay of a moving average."""
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
    """Raises unless `value` is a number >= 0, and finite if it has to be."""
    if (
        not _is_number(value)
        or not value >= 0
        or (value == math.inf and not may_be_infinite)
    ):
        raise ValueError(
            f"`{name}` must be a number >= 0. Received: {name}={value!r}"
        )


def check_learning_rate(learning_rate: Any) -> None:
    """Raises unless it is what Keras takes, and not negative."""
    # A float alone: Keras refuses an integer.
    if callable(learning_rate) or (
        isinstance(learning_rate, float) and 0 <= learning_rate < math.inf
    ):
        return
    raise ValueError(
        "`learning_rate` must be a float >= 0, a `LearningRateSchedule` or a "
        f"callable. Received: learning_rate={learning_rate!r}"
    )


def check_weight_decay(weight_decay: Any) -> None:
    """Raises unless it is None, a number >= 0 or a variable that holds one."""
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
