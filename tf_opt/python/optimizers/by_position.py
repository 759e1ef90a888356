"""What expressions and exclusions meant for each variable, to be saved.

The path of a variable may change when its model is saved and loaded (from
`sequential/dense/bias` to `dense/bias`), and an expression is found in a path.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from tf_opt.python.keras_internals import Variable


@dataclasses.dataclass(frozen=True)
class ByPosition:
    """What a built optimizer does with each variable, in their order.

    Attributes:
        shapes: The variables' shapes, by which one sees whether others are the
            variables of a model of the same structure.
        learning_rate_multipliers: A factor for each; None where there are none.
        weight_decay_multipliers: The same.
        excluded: Positions of the variables that weight decay leaves out; None
            where none were excluded.
    """

    shapes: tuple[tuple[int, ...], ...] = ()
    learning_rate_multipliers: tuple[float, ...] | None = None
    weight_decay_multipliers: tuple[float, ...] | None = None
    excluded: tuple[int, ...] | None = None

    def of(self, variables: Sequence[Variable]) -> ByPosition:
        """Returns what holds for these variables: all of it, or nothing."""
        shapes = tuple(tuple(variable.shape) for variable in variables)
        return self if shapes == self.shapes else ByPosition(shapes)

    def replace(self, **values: Sequence[Any] | None) -> ByPosition:
        """Returns a copy in which these attributes have other values."""
        return dataclasses.replace(
            self,
            **{
                name: None if value is None else tuple(value)
                for name, value in values.items()
            },
        )

    def get_config(self) -> dict[str, Any] | None:
        """Returns plain lists, or None if nothing is to be saved."""
        config: dict[str, Any] = {
            name: list(value)
            for name, value in vars(self).items()
            if name != "shapes" and value is not None
        }
        if not config:
            return None
        return {"shapes": list(map(list, self.shapes)), **config}

    @classmethod
    def from_config(cls, config: Mapping[str, Sequence[Any]]) -> ByPosition:
        """Makes it of what `get_config` returned."""
        config = {name: tuple(value) for name, value in config.items()}
        return cls(**{**config, "shapes": tuple(map(tuple, config["shapes"]))})
