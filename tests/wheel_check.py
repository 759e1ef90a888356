"""Trains one step with an installed wheel; pip_pkg.sh runs it.

The arguments are the TensorFlow minors that the wheel must have libraries for;
none for the pure wheel.
"""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tf_opt


def main() -> None:
    folder = pathlib.Path(tf_opt.__file__).parent
    assert folder.is_relative_to(sys.prefix), f"{folder} is not the wheel"
    info = tf_opt.build_info()
    is_pure = not sys.argv[1:]
    is_loaded = info["custom_ops"] == "loaded"
    assert is_loaded != is_pure, info["custom_ops"]
    assert (folder / "commit.txt").read_text() == info["commit"]
    minors = "for TensorFlow " + (", ".join(sys.argv[1:]) or "none")
    assert info["libraries"] == minors, info["libraries"]

    model = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(1, use_bias=False, kernel_initializer="ones"),
        ]
    )
    implementation = "auto" if is_pure else "custom_op"
    model.compile(
        tf_opt.AdamW(0.1, weight_decay=0.5, implementation=implementation),
        "mse",
    )
    # The model says 1 - 2 = -1 where 0 is right, so that the gradient is
    # 2 * -1 * x = (-2, 4). The decay takes 0.1 * 0.5 of each weight, and a
    # first step of Adam is the learning rate, against the gradient's sign.
    model.fit(np.array([[1.0, -2.0]]), np.array([[0.0]]), verbose=0)
    np.testing.assert_allclose(
        model.get_weights()[0], [[1.05], [0.85]], rtol=1e-6
    )
    print(
        f"The wheel works: one step with TensorFlow {info['tensorflow']}, "
        f"Keras {info['keras']}. CPU kernels: {info['cpu_kernels']}."
    )


if __name__ == "__main__":
    main()
