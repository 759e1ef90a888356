"""Adam and AdamW, with and without AMSGrad."""

from __future__ import annotations

import math

import numpy as np

from reference.rounded import Array

State = dict[str, Array]


def adam(
    state: State,
    g: Array,
    *,
    t: int,
    learning_rate: float,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-8,
    amsgrad: bool = False,
    weight_decay: float = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
    epsilon_hat: bool = False,
) -> State:
    """One step, number `t` from 1: Algorithm 1 of Kingma and Ba, line by line.

    Args:
        state: `variable`, `m`, `v` and, for AMSGrad, `v_max`.
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

    new = {
        "m": beta_1 * state["m"] + (1 - beta_1) * g,
        "v": beta_2 * state["v"] + (1 - beta_2) * (g * g),
    }
    second_moment = new["v"]
    if amsgrad:
        new["v_max"] = np.maximum(state["v_max"], new["v"])
        second_moment = new["v_max"]

    if epsilon_hat:
        alpha = learning_rate * math.sqrt(1 - beta_2**t) / (1 - beta_1**t)
        change = alpha * (new["m"] / (np.sqrt(second_moment) + epsilon))
    else:
        m_hat = new["m"] / (1 - beta_1**t)
        v_hat = second_moment / (1 - beta_2**t)
        change = learning_rate * (m_hat / (np.sqrt(v_hat) + epsilon))
    return {"variable": p - change, **new}
