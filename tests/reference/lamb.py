"""Lamb: algorithm 2 of You et al., line by line."""

import numpy as np

from reference.decay import L2

MODES = {
    "plain": {},
    "decoupled": {"weight_decay": 0.5, "epsilon": 0.01},
    "outside": {"weight_decay": 0.5, "decay_in_direction": False},
    "l2_maximize": {"beta_1": 0.5, "beta_2": 0.75, **L2, "maximize": True},
}


def step(
    state,
    p,
    g,
    *,
    t,
    learning_rate,
    decay,
    beta_1=0.9,
    beta_2=0.999,
    epsilon=1e-7,
    decay_in_direction=True,
):
    if not decay_in_direction:
        p, decay = p - learning_rate * decay * p, 0
    m = beta_1 * state.get("m", 0) + (1 - beta_1) * g
    v = beta_2 * state.get("v", 0) + (1 - beta_2) * g**2
    m_hat, v_hat = m / (1 - beta_1**t), v / (1 - beta_2**t)
    u = m_hat / (np.sqrt(v_hat) + epsilon) + decay * p
    norms = (np.linalg.norm(np.ravel(x)) for x in (p, u))
    ratio = np.divide(*norms) if p.any() and u.any() else 1.0
    return {"variable": p - learning_rate * ratio * u, "m": m, "v": v}
