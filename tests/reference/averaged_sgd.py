"""AveragedSGD, Polyak's and Ruppert's averaging."""

from __future__ import annotations

from reference.rounded import Array

State = dict[str, Array]


def averaged_sgd(
    state: State,
    g: Array,
    *,
    t: int,
    learning_rate: float,
    lambd: float = 1e-4,
    alpha: float = 0.75,
    t0: float = 1e6,
    weight_decay: float = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> State:
    """One step, number `t` from 1, at a constant learning rate.

    Args:
        state: `variable` and `ax`.
        g: The gradient.
        t: Which step this is.
        learning_rate: The step size; it and the others as in the public API,
            whose defaults these are.

    Returns:
        The new state.
    """
    # What the step before left.
    last = t - 1
    eta = learning_rate / (1 + lambd * learning_rate * last) ** alpha
    mu = 1 / max(1, last - t0)

    p = state["variable"]
    if maximize:
        g = -g
    if weight_decay and decoupled_weight_decay:
        p = p - learning_rate * weight_decay * p
    elif weight_decay:
        g = g + weight_decay * state["variable"]
    p = p - lambd * eta * p
    p = p - eta * g
    ax = p if mu == 1 else state["ax"] + mu * (p - state["ax"])
    return {"variable": p, "ax": ax}
