"""Options that users choose by variable.

These are multipliers, lazy tables, tables with row-wise state, exclusions from
weight decay and Muon's matrices. Users name variables by regular expressions,
and `build` finds each variable's value. The values are saved as well: a
variable's path may change when its model is saved and loaded (from
`sequential/dense/bias` to `dense/bias`). A saved value counts as long as the
user's choice is the saved one. It belongs to the variable of the same path, or
of the same position if the paths of all variables differ at most in the names
of models.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from tf_opt.python.functional.checks import require
from tf_opt.python.keras_internals import (
    Optimizer,
    Variable,
    excluded_variables_of,
    path_of,
    searched_name_of,
)
from tf_opt.python.optimizers.state import patterns, table_modes

# The form of `by_position`. A build ignores every other one, so the number only
# changes where a build that reads this form would misread the new one.
_FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Exclusions:
    """Arguments of `exclude_from_weight_decay`, as they are saved.

    Attributes:
        var_names: Regular expressions for variables' names.
        paths: Paths of listed variables.
    """

    var_names: Sequence[str] = ()
    paths: Sequence[str] = ()

    @classmethod
    def load(cls, saved: Mapping[str, Sequence[str]]) -> Exclusions:
        """Returns the exclusions of a configuration, if it has this form."""
        name = "exclude_from_weight_decay"
        require(
            isinstance(saved, Mapping) and {*saved} <= {"var_names", "paths"},
            name,
            saved,
            "None or a dictionary with the lists `var_names` and `paths`",
        )
        var_names = patterns.as_list(
            f"{name}['var_names']", saved.get("var_names", []), "a list"
        )
        paths = saved.get("paths", [])
        paths = [paths] if isinstance(paths, str) else list(paths)
        return cls(var_names, paths)

    def of(
        self, variables: Sequence[Variable], listed: Sequence[Variable]
    ) -> list[bool]:
        """Returns for each variable whether it is excluded.

        `listed` are the listed variables; none if only their paths are known.
        """
        excluded = set(map(id, listed)) or {
            id(variable)
            for variable in variables
            if path_of(variable) in self.paths
        }
        pattern = "|".join(self.var_names)
        return [
            id(variable) in excluded
            or bool(pattern and re.search(pattern, searched_name_of(variable)))
            for variable in variables
        ]

    def warn_if_unmatched(self, variables: Sequence[Variable]) -> None:
        """Warns if no variable's name matches any of the expressions.

        One match is enough: a list of usual names, such as biases and
        normalization, also serves models that lack some of them.
        """
        names = list(map(searched_name_of, variables))
        pattern = "|".join(self.var_names)
        if pattern and not any(re.search(pattern, name) for name in names):
            warnings.warn(
                "`exclude_from_weight_decay(var_names=...)` has the regular "
                f"expressions {list(self.var_names)}, none of which is found "
                "in a trainable variable's name. Some of the names are: "
                f"{names[:4]}",
                stacklevel=2,
            )


# All options by variable, and what is chosen at first.
OPTIONS: Mapping[str, Any] = {
    "learning_rate_multipliers": None,
    "weight_decay_multipliers": None,
    "lazy_mode": False,
    "row_wise": False,
    "excluded": Exclusions(),
    "exclude_layers": None,
    "exclude_embeddings": False,
    "matrix_axes": None,
}


@dataclasses.dataclass(frozen=True)
class Choices:
    """An optimizer's options by variable.

    Attributes:
        chosen: What the user chose, by option.
        values: Each variable's value, by option; None for an option that is
            None. Empty before `build`, unless the optimizer was loaded.
        paths: The variables' paths, to recognize them.
    """

    chosen: Mapping[str, Any] = dataclasses.field(
        default_factory=lambda: OPTIONS
    )
    values: Mapping[str, Sequence[Any] | None] = dataclasses.field(
        default_factory=dict
    )
    paths: Sequence[str] = ()

    def replace(self, option: str, choice: Any) -> Choices:
        """Returns the choices with what the user gave for an option now."""
        values = {k: x for k, x in self.values.items() if k != option}
        return dataclasses.replace(
            self, chosen={**self.chosen, option: choice}, values=values
        )

    def resolve(
        self, optimizer: Optimizer, variables: Sequence[Variable]
    ) -> Choices:
        """Returns the choices with values for an optimizer's variables.

        Raises a ValueError if a choice doesn't fit them.
        """
        paths = list(map(path_of, variables))
        recognized = _recognized(paths, self.paths)
        chosen = dict(self.chosen)
        listed = excluded_variables_of(optimizer, variables)
        # What is listed may be frozen, or known to Keras alone.
        excluded = {*chosen["excluded"].paths, *map(path_of, listed)}
        chosen["excluded"] = dataclasses.replace(
            chosen["excluded"], paths=sorted(excluded)
        )

        def values_of(option: str) -> Sequence[Any] | None:
            choice = chosen[option]
            if option == "lazy_mode":
                return table_modes.modes_of(choice, variables)
            if option == "row_wise":
                return table_modes.which_are_row_wise(choice, variables)
            if option == "excluded":
                return choice.of(variables, listed)
            if option == "exclude_embeddings":
                return [choice and "embedding" in x.lower() for x in paths]
            if option == "exclude_layers":
                return [
                    any(re.search(k, x) for k in choice or ()) for x in paths
                ]
            if choice is None:
                return None
            default = None if option == "matrix_axes" else 1.0
            return patterns.values_of(option, choice, variables, default)

        values = {}
        for option in chosen:
            known = self.values.get(option)
            if known is None or None in recognized:
                values[option] = values_of(option)
            if known is not None:
                values[option] = [
                    values[option][i] if k is None else known[k]
                    for i, k in enumerate(recognized)
                ]
        if optimizer.use_ema:
            table_modes.check_none_is_lazy(
                chosen["lazy_mode"], values["lazy_mode"]
            )
        return Choices(chosen, values, paths)

    def get_config(self) -> dict[str, Any]:
        """Returns what is to be saved besides the options."""
        chosen = {k: _saved(x) for k, x in self.chosen.items()}
        named = {
            k: x
            for k, x in chosen.items()
            if k in self.values and x != _saved(OPTIONS[k])
        }
        by_position = {
            "format": _FORMAT,
            "paths": self.paths,
            "chosen": named,
            "values": {k: list(self.values[k]) for k in named},
        }
        return {
            "exclude_from_weight_decay": chosen["excluded"],
            "by_position": copy.deepcopy(by_position) if named else None,
        }

    def load(self, by_position: Mapping[str, Any]) -> Choices:
        """Returns the choices with the values that `get_config` has returned.

        Another build's form that this one doesn't know is ignored: regular
        expressions find the values.
        """
        require(
            isinstance(by_position, Mapping),
            "by_position",
            by_position,
            "None or what `get_config` returns",
        )
        paths, chosen, values = map(
            by_position.get, ("paths", "chosen", "values")
        )
        if (
            # The form is this one or another, where the field is missing.
            by_position.get("format", _FORMAT) != _FORMAT
            or None in (paths, chosen, values)
            or {len(paths)} != set(map(len, values.values()))
        ):
            return self
        # The order of expressions counts: the first that is found decides.
        unchanged = {
            k: x
            for k, x in values.items()
            if repr(chosen[k]) == repr(_saved(self.chosen.get(k)))
        }
        return Choices(self.chosen, unchanged, paths)


def _saved(choice: Any) -> Any:
    """Returns a choice as it is saved."""
    if not isinstance(choice, Exclusions):
        return choice
    saved = {"var_names": list(choice.var_names), "paths": list(choice.paths)}
    return saved if any(saved.values()) else None


def _recognized(paths: Sequence[str], saved: Sequence[str]) -> list[int | None]:
    """Returns the position of each path's variable in `saved`, or None."""
    in_order = list(range(len(saved)))
    if list(paths) == list(saved):
        return in_order
    found = []
    for path in paths:
        same = [k for k in in_order if path == saved[k]] or [
            k
            for k in in_order
            if f"/{path}".endswith(f"/{saved[k]}")
            or f"/{saved[k]}".endswith(f"/{path}")
        ]
        found.append(same[0] if len(same) == 1 else None)
    counts = collections.Counter(found)
    found = [None if counts[k] > 1 else k for k in found]
    if None in found and len(paths) == len(saved):
        if all(map(_may_be_same, paths, saved)):
            return in_order
    return found


def _may_be_same(path: str, other: str) -> bool:
    """Returns whether two paths differ at most in the models' names."""
    ours, theirs = path.split("/"), other.split("/")
    count = min(len(ours), len(theirs), 2)
    return ours[-count:] == theirs[-count:]
