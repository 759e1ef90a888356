"""ASGD, the stochastic average gradient."""

from __future__ import annotations

from reference.rounded import Array

State = dict[str, Array]


def asgd(
    state: State,
    g: Array,
    *,
    t: int,
    learning_rate: float,
    batch_num: int = 1,
    weight_decay: float = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> State:
    """One step, number `t` from 1, on the batches in order.

    Args:
        state: `variable`, `d` and, for each batch, `y_0`, `y_1`, ...
        g: The gradient.
        t: Which step this is.
        learning_rate: The step size; it and the others as in the public API,
            whose defaults these are.

    Returns:
        The new state.
    """
    p = state["variable"]
    if maximize:
        g = -g
    if weight_decay and decoupled_weight_decay:
        p = p - learning_rate * weight_decay * p
    elif weight_decay:
        g = g + weight_decay * p

    y = f"y_{(t - 1) % batch_num}"
    d = state["d"] - state[y] + g
    change = learning_rate / min(t, batch_num) * d
    return {**state, "variable": p - change, "d": d, y: g}
