"""The choices of tables that are lazy, and whose state has one number a row."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from tf_opt.python.functional.checks import require
from tf_opt.python.functional.rule_spec import RuleSpec
from tf_opt.python.keras_internals import Variable, path_of
from tf_opt.python.optimizers.state import patterns
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState

# The mode of lazy tables whose rows catch up with the steps that they missed.
CATCH_UP = "catch_up"

# Mode of a table: exact, lazy, or lazy and catching up.
Mode = bool | Literal["catch_up"]

# The mode of all tables, regular expressions for those that are lazy, or modes
# by regular expression.
LazyMode = Mode | list[str] | tuple[str, ...] | Mapping[str, Mode]

# All tables of Keras' `Embedding`, or regular expressions for the tables.
RowWise = bool | Sequence[str]

# A table's rows all catch up once one of them may have missed so many steps.
MOST_MISSED_STEPS = 1024


def _is_mode(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_)) or (
        isinstance(value, str) and value == CATCH_UP
    )


def check_lazy_mode(
    name: str, lazy_mode: Any
) -> Mode | list[str] | dict[str, Mode]:
    """Returns a copy; raises a ValueError unless it is a `LazyMode`."""
    if _is_mode(lazy_mode):
        return lazy_mode if isinstance(lazy_mode, str) else bool(lazy_mode)
    if isinstance(lazy_mode, Mapping):
        patterns.check(name, lazy_mode, "keys")
        for pattern, mode in lazy_mode.items():
            if not _is_mode(mode):
                raise ValueError(
                    f"`{name}[{pattern!r}]` must be True, False or "
                    f"{CATCH_UP!r}. Received: {mode!r}"
                )
        return {k: check_lazy_mode(name, x) for k, x in lazy_mode.items()}
    return patterns.as_list(
        name,
        lazy_mode,
        f"True, False, {CATCH_UP!r}, a list of regular expressions for the "
        "tables' paths, or a dictionary of such expressions and modes",
    )


def check_not_lazy(spec: RuleSpec, name: str, lazy_mode: Any) -> None:
    """Raises a ValueError if tables of an optimizer are lazy that can't be."""
    reason = "without an op, the step of a row may depend on the whole table"
    if spec.average is not None:
        reason = (
            "every step moves every row and averages it, whether it occurs or "
            "not. For averages of embedding rows take another optimizer with "
            "`use_ema=True`"
        )
    allowed = f"False for {spec.class_name}: {reason}"
    require(not lazy_mode, name, lazy_mode, allowed)


def without_lazy(lazy_mode: LazyMode) -> LazyMode:
    """Returns a checked `LazyMode` whose lazy tables (True) became exact."""
    if isinstance(lazy_mode, Mapping):
        return {pattern: without_lazy(x) for pattern, x in lazy_mode.items()}
    return lazy_mode if lazy_mode == CATCH_UP else False


def modes_of(
    lazy_mode: LazyMode, variables: Sequence[Variable]
) -> tuple[Mode, ...]:
    """Returns each variable's mode, or raises as `patterns.values_of` does."""
    if _is_mode(lazy_mode):
        return (lazy_mode,) * len(variables)
    if not isinstance(lazy_mode, Mapping):
        lazy_mode = dict.fromkeys(lazy_mode, True)
    return tuple(patterns.values_of("lazy_mode", lazy_mode, variables, False))


def check_none_is_lazy(lazy_mode: LazyMode, modes: Sequence[Mode]) -> None:
    """Raises a ValueError if a variable is lazy, for `use_ema`."""
    if any(modes):
        raise ValueError(
            "`use_ema` must be False with lazy tables: the average of a row "
            "would stand still while the row waits, and `fit` writes the "
            "averages into the model. Leave out `lazy_mode`, whose default "
            "updates all rows, or `use_ema`. Received: use_ema=True, "
            f"lazy_mode={lazy_mode!r}"
        )


def which_catch_up(
    lazy_mode: LazyMode, variables: Sequence[Variable], modes: Sequence[Mode]
) -> list[bool]:
    """Returns which variables' rows catch up; raises if one's can't."""
    found = [
        mode == CATCH_UP
        # Patterns are for tables. Without, there may be any variables.
        and (isinstance(lazy_mode, Mapping) or patterns.is_embedding(variable))
        for variable, mode in zip(variables, modes, strict=True)
    ]
    for variable in itertools.compress(variables, found):
        problem = _why_no_rows(variable)
        if problem is None and variable.constraint is not None:
            problem = "has a constraint, which belongs to every step"
        if problem:
            raise ValueError(
                f"`lazy_mode={CATCH_UP!r}` isn't available for "
                f"`{path_of(variable)}`, which {problem}. Use patterns for the "
                "other tables"
            )
    return found


def check_same_catch_up(
    lazy_mode: LazyMode, before: LazyMode, state: OptimizerState
) -> None:
    """Raises a ValueError if other tables would catch up than before."""
    modes = modes_of(lazy_mode, state.variables)
    after = which_catch_up(lazy_mode, state.variables, modes)
    if after != [state.waits(i) for i in range(len(after))]:
        raise ValueError(
            "`lazy_mode` can't change which tables catch up once the "
            "optimizer is built, as its state depends on it. Give it to the "
            f"constructor. Received: lazy_mode={lazy_mode!r}, before: "
            f"{before!r}"
        )


def _why_no_rows(variable: Variable) -> str | None:
    """Returns why a variable can't be a table, or None."""
    if len(variable.shape) == 0:
        return "is a scalar"
    return "is complex" if tf.as_dtype(variable.dtype).is_complex else None


def check_row_wise(name: str, row_wise: Any) -> bool | list[str]:
    """Returns a copy; raises a ValueError unless it is a `RowWise`."""
    if isinstance(row_wise, (bool, np.bool_)):
        return bool(row_wise)
    return patterns.as_list(
        name,
        row_wise,
        "True, False or a list of regular expressions for the tables' paths",
    )


def which_are_row_wise(
    row_wise: bool | list[str], variables: Sequence[Variable]
) -> list[bool]:
    """Returns for which variables state has one number a row; checks them."""
    if isinstance(row_wise, bool):
        found = [row_wise and patterns.is_embedding(x) for x in variables]
    else:
        chosen = dict.fromkeys(row_wise, True)
        found = patterns.values_of("row_wise", chosen, variables, False)
    for variable in itertools.compress(variables, found):
        problem = _why_no_rows(variable)
        if problem:
            raise ValueError(
                f"`row_wise` isn't available for `{path_of(variable)}`, which "
                f"{problem}. Use patterns for the other tables. Received: "
                f"row_wise={row_wise!r}"
            )
    return found
