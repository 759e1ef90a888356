"""The choice of the tables that are lazy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers.state import patterns

# Whether all tables are lazy, or regular expressions for those that are.
LazyMode = bool | Sequence[str]


def check(name: str, lazy_mode: Any) -> bool | list[str]:
    """Checks a user's `lazy_mode` and returns a copy.

    Raises:
        ValueError: Unless it is a bool, or a list or tuple of regular
            expressions.
    """
    if isinstance(lazy_mode, (bool, np.bool_)):
        return bool(lazy_mode)
    if not isinstance(lazy_mode, (list, tuple)):
        hint = ""
        if isinstance(lazy_mode, str):
            hint = f". For one pattern, write {name}=[{lazy_mode!r}]"
        raise ValueError(
            f"`{name}` must be True, False, or a list of regular expressions "
            f"for the tables' paths. Received: {name}={lazy_mode!r}{hint}"
        )
    patterns.check(name, lazy_mode, "elements")
    return list(lazy_mode)


def which_are_lazy(
    lazy_mode: LazyMode, variables: Sequence[Variable]
) -> tuple[bool, ...]:
    """Returns for each variable whether `lazy_mode` makes it lazy.

    Raises:
        ValueError: If an expression is found in no variable's path, unless it
            is for one whole path (`^...$`).
    """
    if isinstance(lazy_mode, bool):
        return (lazy_mode,) * len(variables)
    lazy = dict.fromkeys(lazy_mode, True)
    return tuple(patterns.values_of("lazy_mode", lazy, variables, False))
