"""What a step over some variables runs, found out before anything is written.

In a graph that is done once, while the step is traced. Eager steps keep it.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf


class Launch(NamedTuple):
    """Variables of one type, on one device, that one op updates.

    Attributes:
        positions: Where they stand among the step's variables.
        lists: What the op takes for the variables and for each kind of slot.
        decays: For each, whether weight decay applies to it.
    """

    positions: tuple[int, ...]
    lists: tuple[Sequence[Any], ...]
    decays: tuple[bool, ...]


class Plan(NamedTuple):
    """What runs: custom ops, and variables for the composed implementation.

    Attributes:
        variables: All variables of the step.
        launches: In their order.
        composed: Where the other variables stand among the step's, those of one
            type and device together: under a strategy their gradients are
            summed together.
    """

    variables: tuple[tf.Variable, ...]
    launches: tuple[Launch, ...]
    composed: tuple[tuple[int, ...], ...]

    def describe(self) -> str:
        """Names the implementations."""
        names = ["custom_op"] * bool(self.launches)
        names += ["composed"] * bool(self.composed)
        return " and ".join(names)


class PlanKeeper:
    """Keeps the plans of the last few lists of variables, for eager steps.

    Threads may share it: at worst two of them make the same plan.
    """

    # Loops step all variables, or take turns among a few parts of them.
    LIMIT = 16

    def __init__(self) -> None:
        self._plans: dict[Hashable, tuple[list, Plan]] = {}
        # Of the step that was last run eagerly, or traced.
        self.last: Plan | None = None

    def __deepcopy__(self, memo: dict) -> PlanKeeper:
        # A copied optimizer has variables of its own.
        return PlanKeeper()

    def clear(self) -> None:
        """Forgets everything: the optimizer has new slots."""
        self._plans.clear()

    def of(
        self,
        variables: Sequence[keras.Variable | tf.Variable],
        mode: Hashable,
        make: Callable[[], Plan],
    ) -> Plan:
        """The plan for these variables, from `make` if it isn't kept.

        Args:
            variables: The variables of a step.
            mode: What else a plan depends on.
            make: Makes a plan.
        """
        key = (mode, *map(id, variables))
        kept = self._plans.get(key)
        if kept is None:
            if len(self._plans) >= self.LIMIT:
                self._plans.clear()
            # With the variables, so that no others can have their ids.
            kept = self._plans[key] = (list(variables), make())
        return kept[1]
