"""Adam: algorithm 1 of Kingma and Ba, line by line."""

import math

import numpy as np

from reference.decay import L2

# Where epsilon is large it matters where it stands, and where beta_2 is small
# the second moment falls below its maximum soon.
MODES = {
    "plain": {},
    "small_betas": {"beta_1": 0.5, "beta_2": 0.6, "epsilon": 0.1},
    "amsgrad": {"amsgrad": True, "beta_2": 0.9},
    "decoupled": {"weight_decay": 0.5},
    "epsilon_hat": {"epsilon_hat": True, "epsilon": 0.01},
    "amsgrad_l2_maximize": {
        "amsgrad": True,
        "beta_2": 0.8,
        "epsilon": 0.01,
        **L2,
        "maximize": True,
    },
    "amsgrad_decoupled_maximize_epsilon_hat": {
        "amsgrad": True,
        "beta_2": 0.8,
        "epsilon": 0.01,
        "weight_decay": 0.5,
        "maximize": True,
        "epsilon_hat": True,
    },
}
# It would grow too much.
TO_NEAREST = ("v_max",)


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
    amsgrad=False,
    epsilon_hat=False,
):
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
