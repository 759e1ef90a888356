"""NAdam."""

from __future__ import annotations

import math

import numpy as np

from reference.rounded import Array

State = dict[str, Array]


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
    weight_decay: float = 0.0,
    decoupled_weight_decay: bool = True,
    maximize: bool = False,
) -> State:
    """One step, number `t` from 1: PyTorch's documented algorithm.

    Args:
        state: `variable`, `m` and `v`.
        g: The gradient.
        t: Which step this is.
        learning_rate: The step size; it and the others as in the public API,
            whose defaults these are.

    Returns:
        The new state.
    """

    def momentum(i: int) -> float:
        return beta_1 * (1 - 0.5 * 0.96 ** (i * momentum_decay))

    p = state["variable"]
    if maximize:
        g = -g
    if weight_decay and decoupled_weight_decay:
        p = p - learning_rate * weight_decay * p
    elif weight_decay:
        g = g + weight_decay * p

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
