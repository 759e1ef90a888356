"""Adadelta: algorithm 1 of Zeiler, line by line, with a learning rate."""

import numpy as np

from reference.decay import L2

MODES = {
    "plain": {},
    "decoupled": {"rho": 0.6, "epsilon": 0.25, "weight_decay": 0.5},
    "l2_maximize": {"rho": 0.8, "epsilon": 1e-3, **L2, "maximize": True},
}


def step(state, p, g, *, t, learning_rate, rho=0.95, epsilon=1e-7):
    a = rho * state["accumulated_grad"] + (1 - rho) * g * g
    d = state["accumulated_delta_var"]
    x = np.sqrt(d + epsilon) / np.sqrt(a + epsilon) * g
    return {
        "variable": p - learning_rate * x,
        "accumulated_grad": a,
        "accumulated_delta_var": rho * d + (1 - rho) * x * x,
    }
