"""One step, number `t` from 1, of each optimizer.

Each function takes the variable (`"variable"`) and its slots, and the gradient
`g`, and returns the new state. What else it takes is named as in the public
API, whose defaults these are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reference.rounded import Array

State = dict[str, Array]


def _decay(
    p: Array,
    g: Array,
    *,
    learning_rate: float,
    weight_decay: float = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> tuple[Array, Array]:
    """What every step begins with: the decayed variable, or gradient."""
    if maximize:
        g = -g
    if weight_decay and decoupled_weight_decay:
        return p - learning_rate * weight_decay * p, g
    if weight_decay:
        return p, g + weight_decay * p
    return p, g


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
    epsilon_hat: bool = False,
    **decay: Any,
) -> State:
    """Algorithm 1 of Kingma and Ba, line by line."""
    p, g = _decay(state["variable"], g, learning_rate=learning_rate, **decay)
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


def nadam(
    state: State,
    g: Array,
    *,
    t: int,
    learning_rate: float,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-8,
    momentum_decay: float = 4e-3,
    **decay: Any,
) -> State:
    """PyTorch's documented algorithm."""

    def momentum(i: int) -> float:
        return beta_1 * (1 - 0.5 * 0.96 ** (i * momentum_decay))

    p, g = _decay(state["variable"], g, learning_rate=learning_rate, **decay)
    # From the definition, where the optimizer keeps a running product.
    product = math.prod(momentum(i) for i in range(1, t + 1))
    next_product = product * momentum(t + 1)
    m = beta_1 * state["m"] + (1 - beta_1) * g
    v = beta_2 * state["v"] + (1 - beta_2) * (g * g)
    m_hat = momentum(t + 1) / (1 - next_product) * m
    m_hat = m_hat + (1 - momentum(t)) / (1 - product) * g
    v_hat = v / (1 - beta_2**t)
    change = learning_rate * (m_hat / (np.sqrt(v_hat) + epsilon))
    return {"variable": p - change, "m": m, "v": v}


def asgd(
    state: State,
    g: Array,
    *,
    t: int,
    learning_rate: float,
    batch_num: int = 1,
    **decay: Any,
) -> State:
    """The stochastic average gradient, on the batches in order.

    The slots are `d` and, for each batch, `y_0`, `y_1`, ...
    """
    p, g = _decay(state["variable"], g, learning_rate=learning_rate, **decay)
    y = f"y_{(t - 1) % batch_num}"
    d = state["d"] - state[y] + g
    change = learning_rate / min(t, batch_num) * d
    return {**state, "variable": p - change, "d": d, y: g}


def averaged_sgd(
    state: State,
    g: Array,
    *,
    t: int,
    learning_rate: float,
    lambd: float = 1e-4,
    alpha: float = 0.75,
    t0: float = 1e6,
    **decay: Any,
) -> State:
    """Polyak's and Ruppert's averaging, at a constant learning rate."""
    # What the step before left.
    last = t - 1
    eta = learning_rate / (1 + lambd * learning_rate * last) ** alpha
    mu = 1 / max(1, last - t0)

    p, g = _decay(state["variable"], g, learning_rate=learning_rate, **decay)
    p = p - lambd * eta * p
    p = p - eta * g
    ax = p if mu == 1 else state["ax"] + mu * (p - state["ax"])
    return {"variable": p, "ax": ax}
