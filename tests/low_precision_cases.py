"""What the tests of 16-bit variables and state share."""

from typing import Any

import keras
import numpy as np

# What is kept in fewer bits than a step is computed in, and how.
SETTINGS = {
    "masters": {"master_weights": True},
    "stochastic": {"stochastic_rounding": True, "seed": 7},
    "state": {"state_dtype": "bfloat16", "seed": -3},
    "masters, state": {
        "master_weights": True,
        "state_dtype": "bfloat16",
        "seed": 2**62,
    },
    "stochastic, state": {
        "stochastic_rounding": True,
        "state_dtype": "bfloat16",
        "seed": 5,
    },
}


def numbers(variable: Any) -> np.ndarray:
    """Its value in float64, whatever it is stored in."""
    return variable.numpy().astype(np.float64)


def masters_of(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """The master weights, which are the last variables."""
    return [x for x in optimizer.variables if "master_weight" in x.name]
