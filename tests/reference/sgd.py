"""SGD: PyTorch's documented algorithm and the one in Keras' docstring."""

from reference.decay import L2

MODES = {
    "plain": {},
    "momentum": {"momentum": 0.5},
    "nesterov": {"momentum": 0.75, "nesterov": True},
    "torch": {"momentum": 0.75, "torch_momentum": True},
    "torch_nesterov": {
        "momentum": 0.5,
        "nesterov": True,
        "torch_momentum": True,
    },
    "decoupled": {"weight_decay": 0.5},
    "l2_nesterov_maximize": {
        "momentum": 0.75,
        "nesterov": True,
        **L2,
        "maximize": True,
    },
    "torch_dampening_l2_maximize": {
        "momentum": 0.75,
        "dampening": 0.25,
        "torch_momentum": True,
        **L2,
        "maximize": True,
    },
}
# Only PyTorch's momentum has it.
FLAT = ("dampening",)


def step(
    state,
    p,
    g,
    *,
    t,
    learning_rate,
    momentum=0.0,
    nesterov=False,
    dampening=0.0,
    torch_momentum=False,
):
    if not momentum:
        return {"variable": p - learning_rate * g}
    if torch_momentum:
        b = g
        if t > 1:
            b = momentum * state["velocity"] + (1 - dampening) * g
        change = g + momentum * b if nesterov else b
        return {"variable": p - learning_rate * change, "velocity": b}
    b = momentum * state["velocity"] - learning_rate * g
    change = momentum * b - learning_rate * g if nesterov else b
    return {"variable": p + change, "velocity": b}
