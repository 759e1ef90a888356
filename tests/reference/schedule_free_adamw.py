"""ScheduleFreeAdamW: the authors' algorithm, at a constant learning rate.

Written with the average x, as in the paper's Algorithm 1; the optimizer doesn't
store it.
"""

import numpy as np

from reference.decay import L2

MODES = {
    "plain": {},
    "warmup": {"warmup_steps": 5, "beta_1": 0.8, "r": 0.5},
    "keras": {
        "weight_lr_power": 0.0,
        "decay_in_direction": False,
        "warmup_steps": 3,
        "weight_decay": 0.5,
    },
    "decoupled": {"weight_decay": 0.5, "weight_lr_power": 1.0},
    "l2": {"beta_1": 0.0, **L2},
    "decay_warmup_maximize": {
        "beta_1": 0.7,
        "beta_2": 0.8,
        "epsilon": 0.01,
        "warmup_steps": 6.5,
        "weight_lr_power": 1.5,
        "r": 2.0,
        "weight_decay": 0.5,
        "maximize": True,
    },
}
EXACT = ("z",)


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
    epsilon=1e-8,
    warmup_steps=0,
    weight_lr_power=2.0,
    r=0.0,
    decay_in_direction=True,
):
    warmed_up = [min(1, i / (warmup_steps or 1)) for i in range(1, t + 1)]
    weights = [
        i**r * (learning_rate * part) ** weight_lr_power
        for i, part in enumerate(warmed_up, 1)
    ]
    rate, share = learning_rate * warmed_up[-1], weights[-1] / sum(weights)
    z = p if t == 1 else state["z"]
    if not decay_in_direction:
        p = p - learning_rate * decay * p
    v = beta_2 * state["v"] + (1 - beta_2) * (g * g)
    d = g / (np.sqrt(v / (1 - beta_2**t)) + epsilon)
    if decay_in_direction:
        d = d + decay * p
    # Times beta_1, which may be 0.
    x = p - (1 - beta_1) * z
    z = z - rate * d
    x = (1 - share) * x + share * beta_1 * z
    return {"variable": x + (1 - beta_1) * z, "z": z, "v": v}
