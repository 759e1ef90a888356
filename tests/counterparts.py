"""Pairs of a tf_opt optimizer and the Keras one with the same numbers."""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import keras
from tf_opt.python.optimizers.base import definition

from registry import ALL


class Counterparts(NamedTuple):
    """Take the same keyword arguments; ours has Keras' conventions."""

    ours: Callable[..., keras.optimizers.Optimizer]
    keras: Callable[..., keras.optimizers.Optimizer]


# Keras' class by the name of ours.
KERAS = {
    ours.__name__: theirs
    for theirs, (ours, _) in definition.COUNTERPARTS.items()
}


def _defaults(cls: type) -> dict[str, Any]:
    parameters = inspect.signature(cls).parameters
    return {name: parameter.default for name, parameter in parameters.items()}


def _pairs() -> Iterator[tuple[str, Counterparts]]:
    """For each optimizer one, and one for each mode with other slots."""
    for theirs, (ours, arguments) in definition.COUNTERPARTS.items():
        under_test, defaults = ALL[ours.__name__], _defaults(theirs)
        # The numbers whose defaults are others.
        arguments = {
            key: defaults[key]
            for key in ("epsilon", "weight_decay")
            if key in defaults
        } | arguments
        seen = set()
        for mode, options in under_test.modes.items():
            slots = under_test.slots(options)
            if slots not in seen and options.keys() <= defaults.keys():
                seen.add(slots)
                shared = {"learning_rate": 0.01, **options}
                name = ours.__name__
                yield (
                    name if mode == "plain" else f"{name}, {mode}",
                    Counterparts(
                        functools.partial(ours, **{**arguments, **shared}),
                        functools.partial(theirs, **shared),
                    ),
                )


COUNTERPARTS = dict(_pairs())
