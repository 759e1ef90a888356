"""Averages the weights of noisy SGD with tf_opt.AveragedSGD.

    python examples/averaged_sgd.py [--epochs N] [--output FILE]

The model is logistic regression on scikit-learn's handwritten digits, in
batches of 2. With a large constant step size, the weights wander around the
solution, and their average is close to it. The example tests both after every
epoch. At the end it saves and loads the averaged model.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
from typing import Any

# TensorFlow reads this when it is imported.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import common
import keras
import numpy as np
import pictures
import rich.console
import rich.table
import tensorflow as tf
import tf_opt
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SEED = 0
BATCH_SIZE = 2
LEARNING_RATE = 1.0
# The average leaves out the first epochs, which approach the solution.
EPOCHS_BEFORE_AVERAGING = 2


class TestLastIterate(keras.callbacks.Callback):
    """Tests the trained weights, not their average, after every epoch.

    Args:
        data: (inputs, labels) to test with.

    Attributes:
        scores: The loss and the metrics after each epoch.
    """

    def __init__(self, data: tuple[np.ndarray, ...]) -> None:
        super().__init__()
        self.data = data
        self.scores: list[dict[str, float]] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Swaps out the average, with which the model was validated."""
        self.model.optimizer.swap_out_average()
        self.scores.append(
            self.model.evaluate(*self.data, verbose=0, return_dict=True)
        )
        self.model.optimizer.swap_in_average()


def load_data() -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Returns (pixels, labels) for training and for testing."""
    x, y = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        (x / 16).astype("float32"),
        y,
        test_size=0.2,
        random_state=SEED,
        stratify=y,
    )
    return (train_x, train_y), (test_x, test_y)


def make_model(steps_per_epoch: int) -> keras.Model:
    """Makes a logistic regression that trains with AveragedSGD."""
    keras.utils.set_random_seed(SEED)
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(10)])
    model.compile(
        optimizer=tf_opt.AveragedSGD(
            LEARNING_RATE,
            lambd=0.0,  # Neither weights nor step size decay.
            t0=EPOCHS_BEFORE_AVERAGING * steps_per_epoch,
        ),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        # With a GPU, Keras would choose XLA, which takes seconds to compile.
        jit_compile=False,
    )
    return model


def train(
    model: keras.Model,
    train_data: tuple[np.ndarray, ...],
    test_data: tuple[np.ndarray, ...],
    epochs: int,
) -> dict[str, list[dict[str, float]]]:
    """Trains; returns the scores of weights and average after each epoch."""
    last_iterate = TestLastIterate(test_data)
    # With a fixed seed, `fit` would shuffle every epoch in the same way.
    batches = (
        tf.data.Dataset.from_tensor_slices(train_data)
        .shuffle(len(train_data[0]), seed=SEED)
        .batch(BATCH_SIZE)
    )
    history = model.fit(
        batches,
        shuffle=False,
        epochs=epochs,
        # Validation uses the average.
        validation_data=test_data,
        callbacks=[last_iterate, tf_opt.callbacks.SwapAveragedWeights()],
        # A progress bar would flood a log file.
        verbose=1 if sys.stdout.isatty() else 2,
    ).history
    average = [
        {"loss": loss, "accuracy": accuracy}
        for loss, accuracy in zip(
            history["val_loss"], history["val_accuracy"], strict=True
        )
    ]
    return {"last iterate": last_iterate.scores, "average": average}


def save_and_load_average(
    model: keras.Model, data: tuple[np.ndarray, ...]
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns the average's score, before and after saving and loading."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "average.keras"
        with model.optimizer.averaged_weights():
            score = model.evaluate(*data, verbose=0, return_dict=True)
            model.save(path)
        loaded = keras.models.load_model(path)
    return score, loaded.evaluate(*data, verbose=0, return_dict=True)


def make_table(
    scores: dict[str, list[dict[str, float]]],
) -> rich.table.Table:
    """Makes a table of the scores since averaging began."""
    table = rich.table.Table(
        title="Test scores of the epochs with averaging",
        caption="Mean ± standard deviation over the epochs.",
    )
    table.add_column("weights")
    for column in ("test loss", "worst", "test accuracy", "worst"):
        table.add_column(column, justify="right")
    for name, each in scores.items():
        each = each[EPOCHS_BEFORE_AVERAGING:]
        loss = np.array([score["loss"] for score in each])
        accuracy = np.array([score["accuracy"] for score in each])
        table.add_row(
            name,
            f"{loss.mean():.4f} ± {loss.std():.4f}",
            f"{loss.max():.4f}",
            f"{accuracy.mean():.2%} ± {accuracy.std():.2%}",
            f"{accuracy.min():.2%}",
        )
    return table


def plot(scores: dict[str, list[dict[str, float]]], path: pathlib.Path) -> None:
    """Draws the test losses of weights and average after each epoch."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for (name, each), color in zip(
        scores.items(), (pictures.TF_OPT_LIGHT, pictures.TF_OPT), strict=True
    ):
        axes.plot(
            range(1, len(each) + 1),
            [score["loss"] for score in each],
            color=color,
            marker="o",
            ms=4,
            label=name,
        )
    axes.set_xlabel("epoch")
    axes.set_ylabel("test loss")
    axes.set_title("Handwritten digits: SGD in batches of 2, and its average")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False)
    pictures.save(figure, path)


def main() -> None:
    """Trains, compares, saves and loads; prints a table, writes a plot."""
    arguments = common.parse_arguments(
        "Trains on handwritten digits with tf_opt.AveragedSGD and compares the "
        "average with the last iterate.",
        epochs=20,
        fewest_epochs=EPOCHS_BEFORE_AVERAGING + 1,
        plot="averaged_sgd.png",
        plotted="the losses",
    )
    console = rich.console.Console()
    train_data, test_data = load_data()
    steps_per_epoch = -(-len(train_data[0]) // BATCH_SIZE)

    console.rule("Training with tf_opt.AveragedSGD; val_ is the average")
    model = make_model(steps_per_epoch)
    scores = train(model, train_data, test_data, arguments.epochs)
    console.print(make_table(scores))
    average, loaded = save_and_load_average(model, test_data)
    console.print(
        f"The average at the end: accuracy {average['accuracy']:.2%}, loss "
        f"{average['loss']:.4f}; saved and loaded: accuracy "
        f"{loaded['accuracy']:.2%}, loss {loaded['loss']:.4f}",
        soft_wrap=True,
    )
    plot(scores, arguments.output)
    console.print(f"Both losses: {arguments.output}", soft_wrap=True)


if __name__ == "__main__":
    main()
