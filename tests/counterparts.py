"""Pairs of a tf_opt optimizer and the Keras one with the same numbers."""

import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import keras
from tf_opt.python.keras_internals import unused_variables_of
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


def _repair(cls: type) -> Callable:
    """Lets Keras' ScheduleFreeAdamW compute what its source means.

    On TensorFlow a variable's `value` is no copy, and changes with it. Returns
    the method that was.
    """
    before = cls.update_step
    source = textwrap.dedent(inspect.getsource(before))
    assert source.count("= momentum.value\n") == 1
    source = source.replace("momentum.value", "ops.copy(momentum)")
    found = {}
    exec(source, before.__globals__, found)
    cls.update_step = found["update_step"]
    return before


SCHEDULE_FREE = getattr(keras.optimizers, "ScheduleFreeAdamW", None)
UNREPAIRED = SCHEDULE_FREE and _repair(SCHEDULE_FREE)


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


def variables_of(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """The variables that Keras' optimizer has, too."""
    shared = getattr(optimizer, "_spec", None) and optimizer._spec.shared
    others = {each.name for each in shared or () if not each.in_keras}
    unused = unused_variables_of(optimizer)
    return [
        x
        for x in optimizer.variables
        if x.name not in others and id(x) not in unused
    ]
