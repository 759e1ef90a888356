"""Adagrad: Duchi et al., 2011, as in the documents of Keras and PyTorch."""

import numpy as np

from reference.decay import L2

MODES = {
    "plain": {},
    "epsilon": {"epsilon": 0.25, "initial_accumulator_value": 0.5},
    "torch": {"epsilon": 0.25, "torch_epsilon": True},
    "decoupled": {"weight_decay": 0.5},
    "row_wise": {"row_wise": ["[ab]$"], "initial_accumulator_value": 0.5, **L2},
    "row_wise_torch": {
        "row_wise": ["[ab]$"],
        "initial_accumulator_value": 0.5,
        "epsilon": 0.25,
        "torch_epsilon": True,
        "weight_decay": 0.5,
        "maximize": True,
    },
    "torch_l2_maximize": {
        "initial_accumulator_value": 0.0,
        "epsilon": 1e-3,
        "torch_epsilon": True,
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
    initial_accumulator_value=0.1,
    epsilon=1e-7,
    torch_epsilon=False,
    row_wise=False,
):
    """With `row_wise`, the accumulator has equal numbers in each row."""
    squares = g * g
    if row_wise and g.ndim > 1:
        squares = squares.mean(axis=tuple(range(1, g.ndim)), keepdims=True)
    a = state["accumulator"] + squares
    if torch_epsilon:
        root = np.sqrt(a) + epsilon
    else:
        root = np.sqrt(a + epsilon)
    return {"variable": p - learning_rate * g / root, "accumulator": a}
