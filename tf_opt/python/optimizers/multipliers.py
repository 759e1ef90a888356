"""Factors for single variables, by regular expressions on their paths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras

from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers import validation
from tf_opt.python.optimizers.gradients import path_of

NAMES = ("learning_rate_multipliers", "weight_decay_multipliers")


def check(name: str, multipliers: Any) -> dict[str, float] | None:
    """Returns a copy of what a user gave, checked.

    Args:
        name: The argument's name.
        multipliers: What the user gave.

    Raises:
        ValueError: Unless it is None or a dictionary of regular expressions
            and numbers >= 0.
    """
    if multipliers is None:
        return None
    if not isinstance(multipliers, Mapping):
        raise ValueError(
            f"`{name}` must be a dictionary of regular expressions and "
            f"factors, or None. Received: {name}={multipliers!r}"
        )
    for pattern, factor in multipliers.items():
        try:
            re.compile(pattern)
        except (TypeError, re.error) as error:
            raise ValueError(
                f"`{name}` must have regular expressions as keys. Received: "
                f"{pattern!r} ({error})"
            ) from error
        validation.check_not_negative(f"{name}[{pattern!r}]", factor)
    return {pattern: float(x) for pattern, x in multipliers.items()}


def _is_whole_path(pattern: str) -> bool:
    """Whether it is for a single path, as `layerwise_multipliers` makes it."""
    return pattern.startswith("^") and pattern.endswith("$")


def factors(
    name: str,
    multipliers: Mapping[str, float],
    variables: Sequence[Variable],
    model: keras.Model | None = None,
) -> list[float]:
    """The factor of each variable: of the first expression that is found.

    Args:
        name: The argument's name.
        multipliers: Factors by regular expression.
        variables: The variables, with their paths.
        model: Whose they are, if that is known.

    Returns:
        A factor for each; 1 where no expression is found.

    Raises:
        ValueError: If an expression is found in no path: neither of these
            variables nor of the model's others, which may be frozen. Without
            a model an expression for a whole path (`^...$`) may be that of a
            frozen variable.
    """
    paths = [path_of(variable) for variable in variables]

    def factor(path: str) -> float:
        for pattern, factor in multipliers.items():
            if re.search(pattern, path):
                return factor
        return 1.0

    others = [] if model is None else list(map(path_of, model.variables))
    for pattern in multipliers:
        may_be_frozen = model is None and _is_whole_path(pattern)
        if not may_be_frozen and not any(
            re.search(pattern, path) for path in (*paths, *others)
        ):
            raise ValueError(
                f"`{name}` has the regular expression {pattern!r}, which is "
                f"found in no variable's path. The paths are: {paths}"
            )
    return list(map(factor, paths))
