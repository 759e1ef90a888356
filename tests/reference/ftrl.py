"""FTRL-Proximal: algorithm 1 of McMahan et al., with TensorFlow's factors."""

import numpy as np

from reference.decay import L2

MODES = {
    "plain": {},
    "l1_l2_maximize": {
        "l1_regularization_strength": 0.25,
        "beta": 1.0,
        **L2,
        "maximize": True,
    },
    "regularized": {
        "initial_accumulator_value": 0.5,
        "l1_regularization_strength": 0.5,
        "l2_regularization_strength": 0.25,
        "l2_shrinkage_regularization_strength": 0.125,
        "beta": 0.5,
        "weight_decay": 0.5,
    },
}


def step(
    state,
    p,
    g,
    *,
    t,
    learning_rate,
    initial_accumulator_value=0.1,
    l1_regularization_strength=0.0,
    l2_regularization_strength=0.0,
    l2_shrinkage_regularization_strength=0.0,
    beta=0.0,
):
    n = state["accumulator"] + g * g
    sigma = (np.sqrt(n) - np.sqrt(state["accumulator"])) / learning_rate
    g = g + 2 * l2_shrinkage_regularization_strength * p
    z = state["linear"] + g - sigma * p
    divisor = (np.sqrt(n) + beta) / learning_rate
    divisor = divisor + 2 * l2_regularization_strength
    p = -np.sign(z) * np.maximum(np.abs(z) - l1_regularization_strength, 0)
    return {"variable": p / divisor, "accumulator": n, "linear": z}
