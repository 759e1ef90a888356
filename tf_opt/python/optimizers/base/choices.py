"""Options that users choose by variable.

These are multipliers, lazy tables, tables with row-wise state and exclusions
from weight decay. Users name variables by regular expressions, and `build`
finds each variable's value. The values are saved as well: a variable's path may
change when its model is saved and loaded (from `sequential/dense/bias` to
`dense/bias`). While the choice is what it was, a variable that is recognized
keeps its value: by its path, or by its position where the names in the choice
are found nowhere.
"""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python.keras_internals import Variable
from tf_opt.python.keras_internals import excluded_variables_of
from tf_opt.python.keras_internals import searched_name_of
from tf_opt.python.optimizers.state import patterns
from tf_opt.python.optimizers.state import table_modes
from tf_opt.python.optimizers.values.gradients import path_of


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
        """Returns the exclusions of a configuration.

        Raises:
            ValueError: If it can't have them.
        """
        expected = "a dictionary with lists of `var_names` and `paths`, or None"
        name = "exclude_from_weight_decay"
        if not isinstance(saved, Mapping) or {*saved} - {"var_names", "paths"}:
            raise ValueError(
                f"`{name}` must be {expected}. Received: {name}={saved!r}"
            )
        return cls(
            patterns.as_list(name, saved.get("var_names", []), expected),
            list(saved.get("paths", [])),
        )

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


@dataclasses.dataclass(frozen=True)
class Choices:
    """An optimizer's options by variable.

    Attributes:
        chosen: What the user chose, by option.
        values: Each variable's value, by option; those of the multipliers may
            be None. Empty before `build`, unless the optimizer was loaded.
        paths: The variables' paths, to recognize them.
        shapes: The variables' shapes, to recognize a model of the same
            structure; None for a shape of unknown rank.
    """

    chosen: Mapping[str, Any] = dataclasses.field(
        default_factory=lambda: {
            "learning_rate_multipliers": None,
            "weight_decay_multipliers": None,
            "lazy_mode": False,
            "row_wise": False,
            "excluded": Exclusions(),
        }
    )
    values: Mapping[str, Sequence[Any] | None] = dataclasses.field(
        default_factory=dict
    )
    paths: Sequence[str] = ()
    shapes: Sequence[Sequence[int | None] | None] = ()

    def replace(self, option: str, choice: Any) -> Choices:
        """Returns the choices with what the user gave for an option now."""
        values = {k: x for k, x in self.values.items() if k != option}
        return dataclasses.replace(
            self, chosen={**self.chosen, option: choice}, values=values
        )

    def resolve(
        self,
        optimizer: keras.optimizers.Optimizer,
        variables: Sequence[Variable],
    ) -> Choices:
        """Returns the choices with values for an optimizer's variables.

        Raises:
            ValueError: If a regular expression is found in no variable's path,
                a table is lazy in spite of `use_ema`, or a variable can't have
                row-wise state.
        """
        paths = list(map(path_of, variables))
        shapes = list(map(_shape_of, variables))
        order = _order_of(paths, self.paths)
        chosen = dict(self.chosen)
        listed = excluded_variables_of(optimizer, variables)
        # What is listed may be frozen, or known to Keras alone.
        paths_ = {*chosen["excluded"].paths, *map(path_of, listed)}
        chosen["excluded"] = dataclasses.replace(
            chosen["excluded"], paths=sorted(paths_)
        )

        def values_of(option: str) -> Sequence[Any] | None:
            choice = chosen[option]
            known = self.values.get(option)
            if known is not None:
                if order is not None:
                    return [known[k] for k in order]
                if shapes == self.shapes and not _is_found(choice, variables):
                    return known
            if option == "lazy_mode":
                return table_modes.modes_of(choice, variables)
            if option == "row_wise":
                return table_modes.which_are_row_wise(choice, variables)
            if option == "excluded":
                return choice.of(variables, listed)
            if choice is None:
                return None
            return patterns.values_of(option, choice, variables, 1.0)

        values = {option: values_of(option) for option in chosen}
        if optimizer.use_ema:
            table_modes.check_none_is_lazy(
                chosen["lazy_mode"], values["lazy_mode"]
            )
        return Choices(chosen, values, paths, shapes)

    def get_config(self) -> dict[str, Any]:
        """Returns what is to be saved besides the options."""
        chosen = {k: _saved(x) for k, x in self.chosen.items()}
        named = {
            k: x
            for k, x in chosen.items()
            if k in self.values and not isinstance(x, (bool, str, type(None)))
        }
        by_position = {
            "paths": self.paths,
            "shapes": self.shapes,
            "chosen": named,
            "values": {k: list(self.values[k]) for k in named},
        }
        return {
            "exclude_from_weight_decay": chosen["excluded"],
            "by_position": by_position if named else None,
        }

    def load(self, by_position: Mapping[str, Any]) -> Choices:
        """Returns the choices with the values that `get_config` has returned.

        Raises:
            ValueError: If that isn't what `get_config` returns.
        """
        expected = ["paths", "shapes", "chosen", "values"]
        if not isinstance(by_position, Mapping) or {*by_position} != {
            *expected
        }:
            raise ValueError(
                f"`by_position` must be what `get_config` returns, {expected}; "
                "without it, names decide. Received: "
                f"by_position={by_position!r}"
            )
        paths, shapes, chosen, values = map(by_position.get, expected)
        # The order of expressions counts: the first that is found decides.
        unchanged = {
            k: x
            for k, x in values.items()
            if repr(chosen[k]) == repr(_saved(self.chosen[k]))
        }
        return Choices(self.chosen, unchanged, paths, shapes)


def _are_found(expressions: Iterable[str], names: Collection[str]) -> bool:
    return all(
        any(re.search(expression, name) for name in names)
        for expression in expressions
    )


def _is_found(choice: Any, variables: Sequence[Variable]) -> bool:
    """Returns whether all names of a choice are those of variables."""
    paths = list(map(path_of, variables))
    if isinstance(choice, Exclusions):
        names = list(map(searched_name_of, variables))
        are_listed = all(paths.count(path) == 1 for path in choice.paths)
        return are_listed and _are_found(choice.var_names, names)
    return _are_found(choice, paths)


def _saved(choice: Any) -> Any:
    """Returns a choice as it is saved."""
    if not isinstance(choice, Exclusions):
        return choice
    saved = {"var_names": list(choice.var_names), "paths": list(choice.paths)}
    return saved if any(saved.values()) else None


def _order_of(
    paths: Sequence[str], others: Sequence[str]
) -> Sequence[int] | None:
    """Returns where the variables of `paths` are in `others`.

    Returns None if these aren't the same variables, or paths can't tell.
    """
    if list(paths) == list(others):
        return range(len(paths))
    # The names of models may lead the paths in only one of the two.
    for last in (slice(None), slice(-2, None)):
        ours, theirs = (
            ["/".join(path.split("/")[last]) for path in x]
            for x in (paths, others)
        )
        position = {path: k for k, path in enumerate(theirs)}
        if len(position) == len(theirs) and sorted(ours) == sorted(theirs):
            return [position[path] for path in ours]
    return None


def _shape_of(variable: Variable) -> list[int | None] | None:
    shape = tf.TensorShape(variable.shape)
    return None if shape.rank is None else shape.as_list()
