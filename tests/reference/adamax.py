"""Adamax: algorithm 2 of Kingma and Ba, as Keras and PyTorch document it."""

import numpy as np

from reference.decay import L2

MODES = {
    "plain": {},
    "decoupled": {
        "beta_1": 0.5,
        "beta_2": 0.9,
        "epsilon": 0.25,
        "weight_decay": 0.5,
    },
    "torch_l2_maximize": {
        "beta_1": 0.5,
        "beta_2": 0.8,
        "epsilon": 0.125,
        "torch_epsilon": True,
        **L2,
        "maximize": True,
    },
}


def step(
    state,
    p,
    g,
    *,
    t,
    learning_rate,
    beta_1=0.9,
    beta_2=0.999,
    epsilon=1e-7,
    torch_epsilon=False,
):
    m = beta_1 * state["m"] + (1 - beta_1) * g
    inside, outside = (epsilon, 0) if torch_epsilon else (0, epsilon)
    u = np.maximum(beta_2 * state["u"], np.abs(g) + inside)
    p = p - learning_rate / (1 - beta_1**t) * m / (u + outside)
    return {"variable": p, "m": m, "u": u}
