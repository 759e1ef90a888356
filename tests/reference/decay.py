"""What the optimizers share: how every step begins."""

from __future__ import annotations

import numpy as np

Array = np.ndarray | float

# The variable (`"variable"`) and its slots.
State = dict[str, Array]

L2 = {"weight_decay": 0.1, "decoupled_weight_decay": False}


def decayed(
    p: Array,
    g: Array,
    *,
    learning_rate: float,
    weight_decay: float = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> tuple[Array, Array]:
    """The decayed variable and the gradient, or the other way round."""
    if maximize:
        g = -g
    if weight_decay and decoupled_weight_decay:
        return p - learning_rate * weight_decay * p, g
    if weight_decay:
        return p, g + weight_decay * p
    return p, g
