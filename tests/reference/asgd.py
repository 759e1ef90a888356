"""ASGD: the stochastic average gradient, on the batches in order.

The slots are `d` and, for each batch, `y_0`, `y_1`, ...
"""

from reference.decay import L2

MODES = {
    "plain": {},
    "batches": {"batch_num": 4},
    "l2": {"batch_num": 7, **L2},
    "decoupled": {"batch_num": 3, "weight_decay": 0.5},
    "maximize": {"batch_num": 2, "maximize": True},
    "l2_maximize": {"batch_num": 3, **L2, "maximize": True},
}
EXACT = ("d",)
TO_NEAREST = ("y",)


def step(state, p, g, *, t, learning_rate, batch_num=1):
    y = f"y_{(t - 1) % batch_num}"
    d = state["d"] - state[y] + g
    change = learning_rate / min(t, batch_num) * d
    return {**state, "variable": p - change, "d": d, y: g}
