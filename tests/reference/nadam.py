"""NAdam: PyTorch's documented algorithm."""

import math

import numpy as np

from reference.decay import L2

MODES = {
    "plain": {},
    "keras_schedule": {"momentum_decay": 1.0},
    "small_betas": {"beta_1": 0.5, "beta_2": 0.6, "epsilon": 0.1},
    "decoupled": {"weight_decay": 0.5},
    "l2_maximize_small_beta": {
        "beta_2": 0.8,
        "epsilon": 0.01,
        "momentum_decay": 0.3,
        **L2,
        "maximize": True,
    },
}


def _momentum(i: int, beta_1: float, momentum_decay: float) -> float:
    return beta_1 * (1 - 0.5 * 0.96 ** (i * momentum_decay))


def step(
    state,
    p,
    g,
    *,
    t,
    learning_rate,
    beta_1=0.9,
    beta_2=0.999,
    epsilon=1e-8,
    momentum_decay=4e-3,
):
    now, next_ = (_momentum(i, beta_1, momentum_decay) for i in (t, t + 1))
    # From the definition, where the optimizer keeps a running product.
    product = math.prod(
        _momentum(i, beta_1, momentum_decay) for i in range(1, t + 1)
    )
    m = beta_1 * state["m"] + (1 - beta_1) * g
    v = beta_2 * state["v"] + (1 - beta_2) * (g * g)
    m_hat = next_ / (1 - product * next_) * m
    m_hat = m_hat + (1 - now) / (1 - product) * g
    v_hat = v / (1 - beta_2**t)
    change = learning_rate * (m_hat / (np.sqrt(v_hat) + epsilon))
    return {"variable": p - change, "m": m, "v": v}
