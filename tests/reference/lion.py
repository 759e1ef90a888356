"""Lion: program 1 of Chen et al., 2023, "Symbolic Discovery of ..."."""

import numpy as np

from reference.decay import L2

MODES = {
    "plain": {},
    "other_betas": {"beta_1": 0.5, "beta_2": 0.75},
    "decoupled": {"weight_decay": 0.5},
    "l2_maximize": {"beta_1": 0.75, "beta_2": 0.5, **L2, "maximize": True},
}
# It only has a part in the sign.
FLAT = ("beta_1",)
JUMPS_AT_ZERO = True


def step(state, p, g, *, t, learning_rate, beta_1=0.9, beta_2=0.99):
    c = beta_1 * state["m"] + (1 - beta_1) * g
    m = beta_2 * state["m"] + (1 - beta_2) * g
    return {"variable": p - learning_rate * np.sign(c), "m": m}
