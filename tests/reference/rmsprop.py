"""RMSprop: the algorithm that Keras and PyTorch document."""

import numpy as np

from reference.decay import L2

MODES = {
    "plain": {},
    "momentum": {"momentum": 0.5, "epsilon": 0.25},
    "centered_decoupled": {"centered": True, "rho": 0.6, "weight_decay": 0.5},
    "torch_momentum_centered_l2_maximize": {
        "rho": 0.75,
        "momentum": 0.5,
        "epsilon": 0.25,
        "centered": True,
        "torch_epsilon": True,
        "torch_momentum": True,
        **L2,
        "maximize": True,
    },
}


def step(
    state,
    p,
    g,
    *,
    t,
    learning_rate,
    rho=0.9,
    momentum=0.0,
    epsilon=1e-7,
    centered=False,
    torch_epsilon=False,
    torch_momentum=False,
):
    new = {"velocity": rho * state["velocity"] + (1 - rho) * g * g}
    variance = new["velocity"]
    if centered:
        average = rho * state["average_gradient"] + (1 - rho) * g
        variance = np.maximum(variance - average * average, 0)
    inside, outside = (0, epsilon) if torch_epsilon else (epsilon, 0)
    change = g / (np.sqrt(variance + inside) + outside)
    before, after = (1, learning_rate) if torch_momentum else (learning_rate, 1)
    change = before * change
    if momentum:
        change = momentum * state["momentum_buffer"] + change
        new["momentum_buffer"] = change
    if centered:
        new["average_gradient"] = average
    return {"variable": p - after * change, **new}
