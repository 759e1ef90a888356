"""AveragedSGD: Polyak's and Ruppert's averaging, at a constant learning rate.

Step size and lag are those of PyTorch's ASGD.
"""

from reference.decay import L2

MODES = {
    "plain": {},
    "averages": {"t0": 5, "lambd": 0.5},
    "l2": {"t0": 0, **L2},
    "decoupled": {"t0": 3, "weight_decay": 0.5},
    "maximize": {"t0": 2.5, "maximize": True},
    "l2_maximize": {
        "t0": 1,
        "lambd": 0.3,
        "alpha": 0.5,
        **L2,
        "maximize": True,
    },
}
# A multiplier is one of eta.
PROPORTIONAL = {"lambd": 0.0}


def step(state, p, g, *, t, learning_rate, lambd=1e-4, alpha=0.75, t0=1e6):
    # What the step before left.
    eta = learning_rate / (1 + lambd * learning_rate * (t - 1)) ** alpha
    mu = 1 / max(1, t - 1 - t0)

    p = p - lambd * eta * p
    p = p - eta * g
    ax = p if mu == 1 else state["ax"] + mu * (p - state["ax"])
    return {"variable": p, "ax": ax}
