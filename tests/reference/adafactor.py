"""Adafactor: algorithms 4 and 5 of Shazeer and Stern, line by line."""

import numpy as np

from reference.decay import L2

MODES = {
    "plain": {},
    "absolute": {"relative_step": False, "beta_2_decay": -0.5},
    "decoupled": {"weight_decay": 0.5, "epsilon_1": 0.01},
    "l2_maximize": {
        "clip_threshold": 0.5,
        "epsilon_2": 0.75,
        **L2,
        "maximize": True,
    },
}
EXACT = ("r", "c")


def rms(x):
    return np.sqrt(np.mean(x**2))


def step(
    state,
    p,
    g,
    *,
    t,
    learning_rate,
    beta_2_decay=-0.8,
    epsilon_1=1e-30,
    epsilon_2=1e-3,
    clip_threshold=1.0,
    relative_step=True,
):
    rho = min(learning_rate, 1 / np.sqrt(t)) if relative_step else learning_rate
    alpha = max(epsilon_2, rms(p)) * rho
    beta = 1 - t**beta_2_decay

    def moved(name, new):
        return {name: beta * state.get(name, 0) + (1 - beta) * new}

    squares = g**2 + epsilon_1
    if p.ndim < 2:
        new = moved("v", squares)
        v = new["v"]
    else:
        new = moved("r", squares.mean(-1)) | moved("c", squares.mean(-2))
        r, c = new["r"], new["c"]
        v = np.einsum("...i,...j->...ij", r, c) / r.mean(-1)[..., None, None]
    u = g / np.sqrt(v)
    u = u / max(1, rms(u) / clip_threshold)
    return {"variable": p - alpha * u, **new}
