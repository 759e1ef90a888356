"""Choices by variable, in a form that can be saved.

These are multipliers, exclusions from weight decay and lazy tables.

They are saved by name for models of any structure. A variable's path may change
when its model is saved and loaded (from `sequential/dense/bias` to
`dense/bias`), so models of the same structure find them by position.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_opt.python.keras_internals import Variable


@dataclasses.dataclass(frozen=True)
class ByPosition:
    """The choices for a built optimizer's variables, in order.

    Attributes:
        shapes: The variables' shapes, to recognize a model of the same
            structure; None for a shape of unknown rank.
        learning_rate_multipliers: A factor for each variable; None without
            multipliers.
        weight_decay_multipliers: A factor for each variable; None without
            multipliers.
        excluded: Positions of the variables without weight decay; None without
            exclusions.
        lazy_mode: The mode of each variable; None without patterns.
    """

    shapes: tuple[tuple[int | None, ...] | None, ...] = ()
    learning_rate_multipliers: tuple[float, ...] | None = None
    weight_decay_multipliers: tuple[float, ...] | None = None
    excluded: tuple[int, ...] | None = None
    lazy_mode: tuple[bool | str, ...] | None = None

    def of(self, variables: Sequence[Variable]) -> ByPosition:
        """Returns this object if the shapes match, or an empty one."""
        shapes = tuple(_shape_of(variable) for variable in variables)
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
        """Returns plain lists, or None if there is nothing to save."""
        config: dict[str, Any] = {
            name: list(value)
            for name, value in vars(self).items()
            if name != "shapes" and value is not None
        }
        if not config:
            return None
        shapes = [None if x is None else list(x) for x in self.shapes]
        return {"shapes": shapes, **config}

    @classmethod
    def from_config(cls, config: Mapping[str, Sequence[Any]]) -> ByPosition:
        """Creates the object from the result of `get_config`."""
        config = {name: tuple(value) for name, value in config.items()}
        shapes = tuple(
            None if x is None else tuple(x) for x in config["shapes"]
        )
        return cls(**{**config, "shapes": shapes})


def _shape_of(variable: Variable) -> tuple[int | None, ...] | None:
    shape = tf.TensorShape(variable.shape)
    return None if shape.rank is None else tuple(shape)


@dataclasses.dataclass(frozen=True)
class Exclusions:
    """Arguments of `exclude_from_weight_decay`, without the variables.

    Attributes:
        var_names: Regular expressions for variables' names.
        paths: Paths of single variables.
    """

    var_names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def get_config(self) -> dict[str, list[str]]:
        """Returns plain lists."""
        return {"var_names": list(self.var_names), "paths": list(self.paths)}

    @classmethod
    def from_config(cls, config: Mapping[str, Sequence[str]]) -> Exclusions:
        """Creates the object from the result of `get_config`."""
        return cls(tuple(config["var_names"]), tuple(config["paths"]))
