"""The optimizers under test. A new one is a line here, and a reference."""

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tf_opt
from allpairspy import AllPairs

from reference.decay import after_decay

# For each class its module in `reference`, whose documentation describes it.
_MODULES = {
    "Adam": "adam",
    "AdamW": "adamw",
    "NAdam": "nadam",
    "SGD": "sgd",
    "Lion": "lion",
    "Adagrad": "adagrad",
    "RMSprop": "rmsprop",
    "Adadelta": "adadelta",
    "Adamax": "adamax",
    "Ftrl": "ftrl",
    "ASGD": "asgd",
    "AveragedSGD": "averaged_sgd",
    "ScheduleFreeAdamW": "schedule_free_adamw",
}
# Those without an op, which need sums over a variable.
_COMPOSED = {"Adafactor": "adafactor", "Lamb": "lamb", "Muon": "muon"}

Arguments = Mapping[str, Any]
# The stream of random bits of a rule's first slot.
FIRST_SLOT = 5

# A case that is left out of `make test`.
slow = functools.partial(pytest.param, marks=pytest.mark.slow)


class Row(NamedTuple):
    """One row of a table, to be read like a variable."""

    table: keras.Variable
    index: int

    def numpy(self) -> np.ndarray:
        return self.table.numpy()[self.index]


Slot = keras.Variable | Row


class OptimizerUnderTest:
    """An optimizer, what it should compute, and how to look inside.

    Attributes:
        step: One step in NumPy.
        modes: Constructor arguments to test, by name.
        thorough: Those of the mode that turns on the most at once.
        has_own_rule: Whether it shares its rule with no optimizer before it.
        has_lazy_mode: Whether `lazy_mode` may be set, also for a matrix: unless
            a slot averages every row in every step, or the rule needs sums over
            the variable.
        decays: The arguments that are weight decays.
        proportional: Arguments with which a step is proportional to the
            learning rate.
        exact: Slots that always have the arithmetic type.
        streams: For each slot that may be rounded at random, the stream of its
            random bits.
    """

    def __init__(self, name: str, module: str) -> None:
        reference = importlib.import_module(f"reference.{module}")
        self.reference = reference
        self.make = getattr(tf_opt, name)
        self.spec = self.make._spec
        whole = getattr(reference, "whole_step", after_decay(reference.step))
        self.step = functools.partial(
            whole, weight_decay=getattr(reference, "WEIGHT_DECAY", 0.0)
        )
        self.is_composed = name in _COMPOSED
        self.modes: Mapping[str, Arguments] = reference.MODES
        *_, self.thorough_mode = self.modes
        self.thorough = self.modes[self.thorough_mode]
        self.has_own_rule = self.spec.class_name == name
        self.has_lazy_mode = self.spec.average is None and not self.is_composed
        self.decays = getattr(reference, "DECAYS", ("weight_decay",))
        self.proportional = getattr(reference, "PROPORTIONAL", {})
        self.exact = getattr(reference, "EXACT", ())
        to_nearest = (*self.exact, *getattr(reference, "TO_NEAREST", ()))
        self.streams = {
            slot.name: stream
            for stream, slot in enumerate(self.spec.slots, FIRST_SLOT)
            if slot.name not in to_nearest
        }

    def slots(self, arguments: Arguments) -> tuple[str, ...]:
        """The slots in a mode; each row of ASGD's table is one."""
        names = []
        for slot in self.spec.slots_of_forms:
            if slot.layer_input:
                rows = range(arguments.get("batch_num", 1))
                names += [f"{slot.name}_{i}" for i in rows]
            elif slot.needed_by is None or arguments.get(slot.needed_by):
                names.append(slot.name)
        return tuple(names)

    def first_arguments(self, arguments: Arguments) -> dict[str, float]:
        """A mode's arguments that are the first value of a slot."""
        taken = inspect.signature(self.make).parameters
        names = {slot.first for slot in self.spec.slots if slot.first}
        return {x: arguments.get(x, taken[x].default) for x in names}

    def first_values(self, arguments: Arguments) -> dict[str, float]:
        """The slots in a mode, and what they are at first."""
        known = self.first_arguments(arguments)
        first = {slot.name: slot.first for slot in self.spec.slots}
        return {
            name: known.get(first.get(name, ""), 0.0)
            for name in self.slots(arguments)
        }

    def find_slots(
        self, optimizer: keras.optimizers.Optimizer
    ) -> dict[str, Sequence[Slot]]:
        """Each slot's variables."""
        found = {}
        for slot in self.spec.slots_of_forms:
            ending = f"_{slot.keras_name or slot.name}"
            named = [
                x
                for x in optimizer.variables
                if x.name.endswith(ending)
                # Keras' names of sums of gradients end like Adagrad's slots.
                and not x.name.endswith("_gradient_accumulator")
            ]
            if slot.layer_input:
                for i in range(named[0].shape[0]):
                    rows = [Row(table, i) for table in named]
                    found[f"{slot.name}_{i}"] = rows
            elif named:
                found[slot.name] = named
        return found


OPTIMIZERS = {
    name: OptimizerUnderTest(name, module) for name, module in _MODULES.items()
}
COMPOSED = {
    name: OptimizerUnderTest(name, module) for name, module in _COMPOSED.items()
}
ALL = OPTIMIZERS | COMPOSED
# One for each rule, for what an optimizer shares that shares its rule.
RULES = {
    name: optimizer
    for name, optimizer in OPTIMIZERS.items()
    if optimizer.has_own_rule
}

# (optimizer, mode) pairs, to parametrize tests with.
_ALL = [(name, mode) for name, x in OPTIMIZERS.items() for mode in x.modes]
# Those with row-wise state, for the variables "a" and "b".
ROW_WISE_MODES = [x for x in _ALL if "row_wise" in OPTIMIZERS[x[0]].modes[x[1]]]
MODES = [x for x in _ALL if x not in ROW_WISE_MODES]
THOROUGH_MODES = [
    (name, optimizer.thorough_mode) for name, optimizer in RULES.items()
]
# Of those without an op.
COMPOSED_MODES = [
    (name, mode)
    for name, optimizer in COMPOSED.items()
    for mode in optimizer.modes
]
# For what is too slow to test in every mode: all slots, and the fewest.
TWO_MODES = [
    (name, mode)
    for name, optimizer in RULES.items()
    for mode in ("plain", optimizer.thorough_mode)
    if mode != "plain"
    or optimizer.slots({}) != optimizer.slots(optimizer.thorough)
]


def pairwise(
    modes: Iterable[tuple[str, ...]],
    *choices: Iterable[Any],
    filter_func: Callable[[list[Any]], bool] = lambda case: True,
) -> list[Any]:
    """Cases in which every pair of choices occurs, also with each mode.

    Optimizers with more state than their slots share their pairs, and so do
    those that need a whole variable, and those that are but formulas for what
    an element becomes. A mode is a tuple that begins with an optimizer's name.
    `filter_func` says whether a case, or its beginning, may occur.
    """
    groups: dict[tuple[bool, bool], list[tuple[str, ...]]] = {}
    for mode in modes:
        under_test = ALL[mode[0]]
        spec = under_test.spec
        has_more = spec.shared or any(slot.layer_input for slot in spec.slots)
        key = bool(has_more), under_test.is_composed
        groups.setdefault(key, []).append(mode)
    return quick_first(
        (*mode, *chosen)
        for group in groups.values()
        for mode, *chosen in AllPairs(
            [group, *map(list, choices)], filter_func=filter_func
        )
    )


def quick_first(cases: Iterable[Sequence[Any]]) -> list[Any]:
    """Marks those cases as slow in which each value has occurred before."""
    seen, marked = set(), []
    for case in cases:
        values = {*map(str, enumerate(case))}
        marked.append((slow if values <= seen else pytest.param)(*case))
        seen |= values
    return marked
