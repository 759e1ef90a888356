"""Makes paddle.npz: what Paddle computes, for where it isn't installed.

Run it where Paddle is, which is best an environment of its own; it needs
neither TensorFlow nor tf_opt:

    pip install paddlepaddle==3.3.1
    python tests/golden/make_paddle_golden.py
"""

import pathlib
import sys

import numpy as np
import paddle

GOLDEN = pathlib.Path(__file__).with_name("paddle.npz")


def main() -> None:
    sys.path.insert(0, str(GOLDEN.parents[1]))
    import paddle_cases as cases

    arrays = {"paddle_version": np.array(paddle.__version__)}
    for name, case in cases.CASES.items():
        for dtype in cases.DTYPES:
            parameter = paddle.create_parameter([cases.SIZE], dtype)
            parameter.set_value(cases.initial_value(dtype))
            optimizer = getattr(paddle.optimizer, case.name)(
                learning_rate=cases.LEARNING_RATE,
                parameters=[parameter],
                **case.arguments,
            )
            values = []
            for step in range(1, cases.STEPS + 1):
                gradient = paddle.to_tensor(cases.gradient(step, dtype))
                (parameter * gradient).sum().backward()
                optimizer.step()
                optimizer.clear_grad()
                values.append(parameter.numpy().copy())
            arrays[f"{name}/{dtype}"] = np.stack(values)
    np.savez_compressed(GOLDEN, **arrays)
    size = GOLDEN.stat().st_size
    print(f"{GOLDEN.name}: Paddle {paddle.__version__}, {size:,} bytes")


if __name__ == "__main__":
    main()
