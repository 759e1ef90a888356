"""Exclusions from weight decay, in a form that can be saved."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers.values.gradients import path_of


@dataclasses.dataclass(frozen=True)
class Exclusions:
    """Arguments of `exclude_from_weight_decay`, without the variables.

    Attributes:
        var_names: Regular expressions for variables' names.
        paths: Paths of single variables.
        positions: Positions, in the optimizer's list, of single variables that
            share their path with others, such as variables without a name.
    """

    var_names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    positions: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        var_names: Sequence[str],
        variables: Sequence[Variable],
        excluded: Sequence[int],
    ) -> Exclusions:
        """Describes the variables at the positions `excluded`."""
        paths = [path_of(variable) for variable in variables]
        count = collections.Counter(paths)
        return cls(
            tuple(var_names),
            tuple(paths[i] for i in excluded if count[paths[i]] == 1),
            tuple(i for i in excluded if count[paths[i]] > 1),
        )

    def find(self, variables: Sequence[Variable]) -> list[Variable]:
        """Returns the excluded single variables; ignores `var_names`."""
        return [
            variable
            for i, variable in enumerate(variables)
            if i in self.positions or path_of(variable) in self.paths
        ]

    def get_config(self) -> dict[str, list[Any]]:
        """Returns plain lists."""
        return {
            key: list(value) for key, value in dataclasses.asdict(self).items()
        }

    @classmethod
    def from_config(cls, config: dict[str, Sequence[Any]]) -> Exclusions:
        """Creates the object from the result of `get_config`."""
        return cls(**{key: tuple(value) for key, value in config.items()})
