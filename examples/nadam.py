"""Trains one small network with Keras' Nadam and with tf_opt's NAdam.

    python examples/nadam.py [--epochs N]

The data are scikit-learn's 569 breast tumours, benign or malignant. All runs
start from the same weights and see the same batches. The example creates
tf_opt's optimizer in two ways, directly and by converting Keras' optimizer.
Both match Keras to rounding.
"""

from __future__ import annotations

import os

# TensorFlow reads this when it is imported.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import common
import keras
import numpy as np
import rich.console
import rich.table
import tf_opt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

SEED = 0
BATCH_SIZE = 32
HYPERPARAMETERS = {"learning_rate": 1e-3, "epsilon": 1e-7}


def make_optimizers() -> dict[str, keras.optimizers.Optimizer]:
    """Makes Keras' optimizer, and tf_opt's in two ways."""
    return {
        "keras.optimizers.Nadam": keras.optimizers.Nadam(**HYPERPARAMETERS),
        # The momentum grows as in Keras, not as in PyTorch.
        "tf_opt.NAdam": tf_opt.NAdam(**HYPERPARAMETERS, momentum_decay=1.0),
        "tf_opt.from_keras": tf_opt.from_keras(
            keras.optimizers.Nadam(**HYPERPARAMETERS)
        ),
    }


def load_data() -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Returns (measurements, labels) for training and for testing."""
    x, y = load_breast_cancer(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        x, y, test_size=0.2, random_state=SEED, stratify=y
    )
    scaler = StandardScaler().fit(train_x)
    train_x, test_x = (
        scaler.transform(part).astype("float32") for part in (train_x, test_x)
    )
    return (train_x, train_y), (test_x, test_y)


def make_model() -> keras.Model:
    """Makes a small network, always with the same weights."""
    keras.utils.set_random_seed(SEED)
    hidden = [keras.layers.Dense(32, activation="relu") for _ in range(3)]
    return keras.Sequential(
        [keras.Input((30,)), *hidden, keras.layers.Dense(2)]
    )


def flat_weights(model: keras.Model) -> np.ndarray:
    """Returns all weights of the model in one vector."""
    return np.concatenate([array.ravel() for array in model.get_weights()])


def main() -> None:
    """Trains, compares and prints a table."""
    arguments = common.parse_arguments(
        "Trains on breast tumours with Keras' Nadam and with tf_opt's NAdam, "
        "and compares.",
        epochs=10,
    )
    console = rich.console.Console()
    train_data, test_data = load_data()

    scores, weights, steps = {}, {}, {}
    for name, optimizer in make_optimizers().items():
        console.rule(f"Training with {name}")
        model = make_model()
        common.train(
            model,
            optimizer,
            train_data,
            batch_size=BATCH_SIZE,
            epochs=arguments.epochs,
            seed=SEED,
        )
        scores[name] = model.evaluate(*test_data, verbose=0, return_dict=True)
        weights[name] = flat_weights(model)
        batch = [array[:BATCH_SIZE] for array in train_data]
        steps[name] = common.make_step(model, *batch)
    milliseconds = common.time_in_turns(steps)

    table = rich.table.Table(
        title=f"{arguments.epochs} epochs of {len(train_data[0])} tumours, "
        f"tested on {len(test_data[0])} others",
        caption="Apart: the largest difference of a trained weight from "
        "Keras'. A step is optimizer.apply in a tf.function (median).",
    )
    table.add_column("optimizer")
    for column in ("test accuracy", "test loss", "apart", "ms per step"):
        table.add_column(column, justify="right")
    reference = next(iter(weights.values()))
    for name, score in scores.items():
        table.add_row(
            name,
            f"{score['accuracy']:.2%}",
            f"{score['loss']:.6f}",
            f"{np.abs(weights[name] - reference).max():.0e}",
            f"{milliseconds[name]:.3f}",
        )
    console.print(table)


if __name__ == "__main__":
    main()
