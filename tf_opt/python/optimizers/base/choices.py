"""Options that users choose by variable.

These are multipliers, lazy tables, tables with row-wise state and exclusions
from weight decay. Users name variables by regular expressions, and `build`
finds each variable's value. The values are saved as well: a variable's path may
change when its model is saved and loaded (from `sequential/dense/bias` to
`dense/bias`), so models of the same structure take the saved values, and others
take those of the names.
"""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python.keras_internals import Variable
from tf_opt.python.keras_internals import excluded_variables_of
from tf_opt.python.keras_internals import tf_variable
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

    var_names: list[str] = dataclasses.field(default_factory=list)
    paths: list[str] = dataclasses.field(default_factory=list)

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
            # Keras takes the names of TensorFlow's variables.
            or bool(pattern and re.search(pattern, tf_variable(variable).name))
            for variable in variables
        ]

    def warn_if_unmatched(self, variables: Sequence[Variable]) -> None:
        """Warns if no variable's name matches any of the expressions.

        One match is enough: a list of usual names, such as biases and
        normalization, also serves models that lack some of them.
        """
        names = [tf_variable(variable).name for variable in variables]
        pattern = "|".join(self.var_names)
        if pattern and not any(re.search(pattern, name) for name in names):
            warnings.warn(
                "`exclude_from_weight_decay(var_names=...)` has the regular "
                f"expressions {self.var_names}, none of which is found in a "
                "trainable variable's name. Some of the names are: "
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
    shapes: Sequence[Sequence[int | None] | None] = ()

    def replace(self, option: str, choice: Any) -> Choices:
        """Returns the choices with what the user gave for an option now."""
        values = {k: x for k, x in self.values.items() if k != option}
        return Choices({**self.chosen, option: choice}, values, self.shapes)

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
        shapes = list(map(_shape_of, variables))
        known = self.values if shapes == self.shapes else {}
        chosen = dict(self.chosen)
        listed = excluded_variables_of(optimizer, variables)
        if listed:
            chosen["excluded"] = dataclasses.replace(
                chosen["excluded"], paths=list(map(path_of, listed))
            )

        def values_of(option: str) -> Sequence[Any] | None:
            choice = chosen[option]
            if option == "lazy_mode":
                return table_modes.modes_of(choice, variables)
            if option == "row_wise":
                return table_modes.which_are_row_wise(choice, variables)
            if option == "excluded":
                return choice.of(variables, listed)
            if choice is None:
                return None
            return patterns.values_of(option, choice, variables, 1.0)

        values = {
            option: known[option] if option in known else values_of(option)
            for option in chosen
        }
        if optimizer.use_ema:
            table_modes.check_none_is_lazy(
                chosen["lazy_mode"], values["lazy_mode"]
            )
        return Choices(chosen, values, shapes)

    def get_config(self) -> dict[str, Any]:
        """Returns what is to be saved besides the arguments."""
        named = {
            option
            for option, choice in self.chosen.items()
            if not isinstance(choice, (bool, str, type(None)))
            and choice != Exclusions()
        }
        config: dict[str, Any] = {}
        if "excluded" in named:
            exclusions = dataclasses.asdict(self.chosen["excluded"])
            config["exclude_from_weight_decay"] = exclusions
        values = {k: list(x) for k, x in self.values.items() if k in named}
        if values:
            config["by_position"] = {"shapes": self.shapes, **values}
        return config

    def load(
        self,
        exclusions: Mapping[str, Any] | None,
        by_position: Mapping[str, Any] | None,
    ) -> Choices:
        """Returns the choices with what `get_config` has returned."""
        chosen = dict(self.chosen)
        if exclusions:
            chosen["excluded"] = Exclusions(**exclusions)
        values = dict(by_position or {})
        shapes = values.pop("shapes", ())
        return Choices(chosen, values, shapes)


def _shape_of(variable: Variable) -> list[int | None] | None:
    shape = tf.TensorShape(variable.shape)
    return None if shape.rank is None else shape.as_list()
