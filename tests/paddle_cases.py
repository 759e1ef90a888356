"""What is compared with Paddle. Imports neither Paddle nor TensorFlow."""

from typing import Any, NamedTuple

import numpy as np

# A float32 has it exactly: Paddle and Keras store it in one.
LEARNING_RATE = 2.0**-7
STEPS = 40
SIZE = 8
DTYPES = ["float32", "float64"]


class Case(NamedTuple):
    """An optimizer here and in Paddle.

    Attributes:
        name: The class, in tf_opt and in `paddle.optimizer`.
        arguments: Its arguments. Weight decay is L2.
        tolerance: How far apart they may be in float64, relative: Paddle's
            NAdam rounds its scalars to float32.
    """

    name: str
    arguments: dict[str, Any]
    tolerance: float


_DECAY = {"weight_decay": 0.125}
CASES = {
    **{
        f"asgd_{batch_num}{suffix}": Case(
            "ASGD", {"batch_num": batch_num, **decay}, 1e-12
        )
        for batch_num in (1, 4, 7)
        for suffix, decay in {"": {}, "_l2": _DECAY}.items()
    },
    "nadam": Case("NAdam", {}, 1e-7),
    "nadam_l2": Case("NAdam", {"momentum_decay": 0.1, **_DECAY}, 1e-7),
}


def initial_value(dtype: str) -> np.ndarray:
    """Both signs, and far from 0: the steps are smaller."""
    return np.array([4, -4, 5, -5, 6, -6, 7, -7], dtype)


def gradient(step: int, dtype: str) -> np.ndarray:
    """The gradient of a step: both signs, 0 now and then."""
    generator = np.random.default_rng(step)
    value = generator.normal(size=SIZE)
    value[step % SIZE] = 0
    return value.astype(dtype)
