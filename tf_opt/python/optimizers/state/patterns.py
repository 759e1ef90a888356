"""Values of single variables, which users name by regular expressions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tf_opt.python.functional.checks import require
from tf_opt.python.functional.rule_spec import NON_NEGATIVE
from tf_opt.python.keras_internals import Variable, path_of
from tf_opt.python.optimizers.values import validation

Value = TypeVar("Value")


def check(name: str, patterns: Iterable[Any], role: str) -> None:
    """Raises a ValueError unless all `patterns` are regular expressions.

    `role` tells what they are in the argument, such as "keys".
    """
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (TypeError, re.error) as error:
            raise ValueError(
                f"`{name}` must have regular expressions as {role}. Received: "
                f"{pattern!r} ({error})"
            ) from error


def as_list(name: str, value: Any, expected: str) -> list[str]:
    """Returns a copy of a user's list of regular expressions.

    Raises a ValueError for anything else; the argument must be `expected`.
    """
    if not isinstance(value, (list, tuple)):
        hint = ""
        if isinstance(value, str):
            hint = f". For one pattern, write {name}=[{value!r}]"
        raise ValueError(
            f"`{name}` must be {expected}. Received: {name}={value!r}{hint}"
        )
    check(name, value, "elements")
    return list(value)


def check_factors(name: str, multipliers: Any) -> dict[str, float] | None:
    """Returns a copy of a user's multipliers.

    Raises a ValueError unless they are None or a dictionary of regular
    expressions and numbers >= 0.
    """
    if multipliers is None:
        return None
    allowed = "a dictionary of regular expressions and factors, or None"
    require(isinstance(multipliers, Mapping), name, multipliers, allowed)
    check(name, multipliers, "keys")
    for pattern, factor in multipliers.items():
        validation.check_fixed_number(
            f"{name}[{pattern!r}]", factor, NON_NEGATIVE
        )
    return {pattern: float(x) for pattern, x in multipliers.items()}


def _refuse(*_: Any, **__: Any) -> None:
    raise TypeError(
        "This is a copy of an optimizer's argument, so a change would have no "
        "effect. Assign a whole dictionary or list instead, such as "
        "`optimizer.learning_rate_multipliers = {...}`"
    )


class _ReadOnlyDict(dict):
    __setitem__ = __delitem__ = clear = pop = popitem = _refuse
    setdefault = update = _refuse

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class _ReadOnlyList(list):
    __setitem__ = __delitem__ = append = clear = extend = insert = _refuse
    pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> Any:
        return list, (list(self),)


def read_only(value: Any) -> Any:
    """Returns a copy of a choice that refuses changes; its copies don't."""
    if isinstance(value, Mapping):
        return _ReadOnlyDict(value)
    return _ReadOnlyList(value) if isinstance(value, list) else value


def values_of(
    name: str,
    values: Mapping[str, Value],
    variables: Sequence[Variable],
    default: Value,
) -> list[Value]:
    """Returns the value of each variable: that of the first match.

    A variable whose path matches nothing gets the default. An expression that
    is found in no path is a ValueError, unless it is for a whole path.
    """
    paths = [path_of(variable) for variable in variables]

    def value(path: str) -> Value:
        for pattern, value in values.items():
            if re.search(pattern, path):
                return value
        return default

    for pattern in values:
        # A whole path, as in `layerwise_multipliers`, may belong to a variable
        # that is frozen at the moment.
        is_whole_path = pattern.startswith("^") and pattern.endswith("$")
        if not is_whole_path and not any(
            re.search(pattern, path) for path in paths
        ):
            raise ValueError(
                f"`{name}` has the regular expression {pattern!r}, which is "
                "found in no trainable variable's path. Leave it out while its "
                f"variables are frozen. The paths are: {paths}"
            )
    return list(map(value, paths))


def is_embedding(variable: Variable) -> bool:
    """Returns whether a variable is a Keras `Embedding`'s table, or a part."""
    path = path_of(variable)
    return bool(re.search(r"(^|/)embeddings(/part_\d+)?(:\d+)?$", path))


def of_paths(
    name: str, variables: Sequence[Variable], values: Sequence[Value]
) -> dict[str, Value]:
    """Returns values by regular expressions for the variables' whole paths.

    Paths must differ. `name` is the argument that the variables come from.
    """
    found: dict[str, Value] = {}
    for variable, value in zip(variables, values, strict=True):
        pattern = f"^{re.escape(path_of(variable))}$"
        if pattern in found:
            raise ValueError(
                f"`{name}` must have a path of its own for each trainable "
                f"variable. Received: {path_of(variable)!r} twice"
            )
        found[pattern] = value
    return found
