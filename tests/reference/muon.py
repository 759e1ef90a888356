"""Muon: Jordan's optimizer with Liu et al.'s factor, line by line."""

import numpy as np

from reference import adam
from reference.decay import L2

MODES = {
    "plain": {},
    "no_nesterov": {"nesterov": False, "ns_steps": 3, "momentum": 0.75},
    "coefficients": {
        **{"muon_a": 3.0, "muon_b": -3.5, "muon_c": 1.5},
        **{"adam_beta_1": 0.5, "adam_beta_2": 0.75, "epsilon": 0.01},
    },
    "l2_maximize": {"rms_rate": None, **L2, "maximize": True},
}
WEIGHT_DECAY = 0.004


def step(
    state,
    p,
    g,
    *,
    t,
    learning_rate,
    adam_beta_1=0.9,
    adam_beta_2=0.999,
    epsilon=1e-7,
    muon_a=3.4445,
    muon_b=-4.7750,
    muon_c=2.0315,
    momentum=0.95,
    ns_steps=5,
    nesterov=True,
    rms_rate=0.2,
):
    if p.ndim != 2:
        return adam.step(
            {"m": 0, "v": 0, **state},
            *(p, g),
            t=t,
            learning_rate=learning_rate,
            beta_1=adam_beta_1,
            beta_2=adam_beta_2,
            epsilon=epsilon,
            epsilon_hat=True,
        )
    m = momentum * state.get("m", 0) + g
    x = g + momentum * m if nesterov else m
    x = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(ns_steps):
        a = x @ x.T
        x = muon_a * x + (muon_b * a + muon_c * a @ a) @ x
    if rms_rate is not None:
        x = x * rms_rate * max(p.shape) ** 0.5
    return {"variable": p - learning_rate * x, "m": m}
