"""Which variables weight decay leaves out, in a form that can be saved."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers.values.gradients import path_of


@dataclasses.dataclass(frozen=True)
class Exclusions:
    """What `exclude_from_weight_decay` said, without the variables themselves.

    Attributes:
        var_names: Regular expressions that are looked for in variables' names.
        paths: Paths of single variables.
        positions: Where others stand in the optimizer's list of variables:
            those that share their path, as variables without a name do.
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
        """Describes those of `variables` whose positions are `excluded`."""
        paths = [path_of(variable) for variable in variables]
        count = collections.Counter(paths)
        return cls(
            tuple(var_names),
            tuple(paths[i] for i in excluded if count[paths[i]] == 1),
            tuple(i for i in excluded if count[paths[i]] > 1),
        )

    def find(self, variables: Sequence[Variable]) -> list[Variable]:
        """The single variables that are meant; no names."""
        return [
            variable
            for i, variable in enumerate(variables)
            if i in self.positions or path_of(variable) in self.paths
        ]

    def get_config(self) -> dict[str, list[Any]]:
        """As plain lists."""
        return {
            key: list(value) for key, value in dataclasses.asdict(self).items()
        }

    @classmethod
    def from_config(cls, config: dict[str, Sequence[Any]]) -> Exclusions:
        """The inverse of `get_config`."""
        return cls(**{key: tuple(value) for key, value in config.items()})
