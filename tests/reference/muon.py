"""Muon: Jordan's optimizer with Liu et al.'s factor, line by line."""

import numpy as np

from reference import adam
from reference.decay import L2, after_decay

MODES = {
    "plain": {},
    "no_nesterov": {"nesterov": False, "ns_steps": 3, "momentum": 0.75},
    "coefficients": {
        **{"muon_a": 3.0, "muon_b": -3.5, "muon_c": 1.5},
        **{"adam_beta_1": 0.5, "adam_beta_2": 0.75, "epsilon": 0.01},
        **{"adam_lr_ratio": 0.5, "adam_weight_decay": 0.25},
    },
    # What isn't a matrix only decays.
    "ratio_0": {"adam_lr_ratio": 0.0, "adam_weight_decay": 0.5},
    "l2_maximize": {
        "rms_rate": None,
        **L2,
        "adam_weight_decay": 0.25,
        "maximize": True,
    },
}
WEIGHT_DECAY = 0.004
DECAYS = ("weight_decay", "adam_weight_decay")


def whole_step(
    state, g, *, weight_decay, adam_weight_decay=WEIGHT_DECAY, **arguments
):
    """A step with its decay, which is AdamW's own for what isn't a matrix."""
    is_matrix = state["variable"].ndim == 2
    return after_decay(step)(
        state,
        g,
        weight_decay=(weight_decay if is_matrix else adam_weight_decay) or 0.0,
        is_matrix=is_matrix,
        **arguments,
    )


def step(
    state,
    p,
    g,
    *,
    t,
    learning_rate,
    is_matrix,
    adam_lr_ratio=1.0,
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
    if not is_matrix:
        return adam.step(
            {"m": 0, "v": 0, **state},
            *(p, g),
            t=t,
            learning_rate=learning_rate * adam_lr_ratio,
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
