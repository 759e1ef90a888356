"""What the optimizers share: how every step begins."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray | float

# The variable (`"variable"`) and its slots.
State = dict[str, Array]

L2 = {"weight_decay": 0.1, "decoupled_weight_decay": False}


def after_decay(step: Callable[..., State]) -> Callable[..., State]:
    """A whole step, of which `step` is what comes after the decay.

    A step that takes it as `decay` has a decoupled one itself.
    """
    takes_decay = "decay" in inspect.signature(step).parameters

    @functools.wraps(step)
    def whole(
        state: State,
        g: Array,
        *,
        learning_rate: float,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = True,
        maximize: bool = False,
        **arguments: Any,
    ) -> State:
        p = state["variable"]
        if maximize:
            g = -g
        if takes_decay:
            arguments["decay"] = weight_decay if decoupled_weight_decay else 0.0
        elif decoupled_weight_decay:
            p = p - learning_rate * weight_decay * p
        if not decoupled_weight_decay:
            g = g + weight_decay * p
        return step(state, p, g, learning_rate=learning_rate, **arguments)

    return whole
