"""Makes paddle.npz: what Paddle computes, for where it isn't installed.

Run it where Paddle is, which is best an environment of its own; it needs
neither TensorFlow nor tf_opt:

    pip install paddlepaddle==3.3.1
    python tests/golden/make_paddle.py
"""

import pathlib
from typing import Any, NamedTuple

import numpy as np

GOLDEN = pathlib.Path(__file__).with_name("paddle.npz")
# A float32 has it exactly: Paddle and Keras store it in one.
LEARNING_RATE = 2.0**-7
STEPS = 40
SIZE = 8


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
    value = np.random.default_rng(step).normal(size=SIZE)
    value[step % SIZE] = 0
    return value.astype(dtype)


def main() -> None:
    """Writes all cases' values after each step."""
    import paddle

    arrays = {"paddle_version": np.array(paddle.__version__)}
    for name, case in CASES.items():
        for dtype in ("float32", "float64"):
            parameter = paddle.create_parameter([SIZE], dtype)
            parameter.set_value(initial_value(dtype))
            optimizer = getattr(paddle.optimizer, case.name)(
                learning_rate=LEARNING_RATE,
                parameters=[parameter],
                **case.arguments,
            )
            values = []
            for step in range(1, STEPS + 1):
                slope = paddle.to_tensor(gradient(step, dtype))
                (parameter * slope).sum().backward()
                optimizer.step()
                optimizer.clear_grad()
                values.append(parameter.numpy().copy())
            arrays[f"{name}/{dtype}"] = np.stack(values)
    np.savez_compressed(GOLDEN, **arrays)


if __name__ == "__main__":
    main()
