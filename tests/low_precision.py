"""What the tests of 16-bit variables and state share."""

from __future__ import annotations

import keras
import pytest
from tf_opt.python import tensorflow_internals
from tf_opt.python.ops import library
from tf_opt.python.ops.adam import OP

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

HAS_OP = library.library().ops is not None and (
    "master_weights" in tensorflow_internals.signature_of(OP.name).handles
)
IMPLEMENTATIONS = [
    pytest.param(
        "custom_op",
        marks=pytest.mark.skipif(not HAS_OP, reason="no such input yet"),
    ),
    "composed",
]
implementations = pytest.mark.parametrize("implementation", IMPLEMENTATIONS)


def masters_of(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """The master weights, which are the last variables."""
    return [x for x in optimizer.variables if "master_weight" in x.name]
