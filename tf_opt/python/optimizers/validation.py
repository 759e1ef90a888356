"""Checks of constructor arguments: each error names argument and value."""

from __future__ import annotations

import numbers
from collections.abc import Sequence


def check_in_unit_interval(name: str, value: float) -> None:
    """Raises unless `value` is in [0, 1): the decay of a moving average."""
    if not 0 <= value < 1:
        raise ValueError(
            f"`{name}` must be in [0, 1). Received: {name}={value}"
        )


def check_not_negative(name: str, value: float) -> None:
    """Raises unless `value` >= 0."""
    if not value >= 0:
        raise ValueError(f"`{name}` must be >= 0. Received: {name}={value}")


def check_positive_integer(name: str, value: int) -> None:
    """Raises unless `value` is an integer >= 1."""
    if not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(
            f"`{name}` must be an integer >= 1. Received: {name}={value}"
        )


def check_one_of(name: str, value: str, choices: Sequence[str]) -> None:
    """Raises unless `value` is one of `choices`."""
    if value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ValueError(
            f"`{name}` must be one of {listed}. Received: {name}={value!r}"
        )
