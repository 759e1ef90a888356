"""Trains one small network twice: with Keras' AdamW and with tf_opt's.

    python examples/digits.py [--epochs N] [--output FILE]

The data are scikit-learn's 1,797 handwritten digits. Both runs start from the
same weights and see the same batches, so the loss curves should coincide. Only
the time of an optimizer step differs.
"""

from __future__ import annotations

import os
import pathlib

# TensorFlow reads this when it is imported.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import common
import keras
import numpy as np
import pictures
import rich.console
import rich.table
import tf_opt
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SEED = 0
BATCH_SIZE = 64
HYPERPARAMETERS = {
    "learning_rate": 1e-3,
    "weight_decay": 0.01,
    "epsilon": 1e-7,
}


def make_optimizers() -> dict[str, keras.optimizers.Optimizer]:
    """Makes the two optimizers, with the same settings."""
    return {
        "keras.optimizers.AdamW": keras.optimizers.AdamW(**HYPERPARAMETERS),
        # `epsilon_hat` adds epsilon as Keras does, not as the paper does.
        "tf_opt.AdamW": tf_opt.AdamW(**HYPERPARAMETERS, epsilon_hat=True),
    }


def load_data() -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Returns (images, labels) for training and for testing."""
    digits = load_digits()
    images = (digits.images[..., np.newaxis] / 16).astype("float32")
    train_x, test_x, train_y, test_y = train_test_split(
        images,
        digits.target,
        test_size=0.2,
        random_state=SEED,
        stratify=digits.target,
    )
    return (train_x, train_y), (test_x, test_y)


def make_model(seed: int = SEED) -> keras.Model:
    """Makes a small convolutional network with weights from a seed."""
    keras.utils.set_random_seed(seed)
    layers = [keras.Input((8, 8, 1))]
    for filters in (32, 32, 64, 64):
        layers += [
            keras.layers.Conv2D(filters, 3, padding="same", use_bias=False),
            # The run is short, so average over few steps.
            keras.layers.BatchNormalization(momentum=0.9),
            keras.layers.ReLU(),
        ]
    layers += [
        keras.layers.MaxPooling2D(2),
        keras.layers.Flatten(),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(10),
    ]
    return keras.Sequential(layers)


def plot(losses: dict[str, list[float]], path: pathlib.Path) -> None:
    """Draws both loss curves and their difference."""
    (keras_name, keras_losses), (tf_opt_name, tf_opt_losses) = losses.items()
    epochs = np.arange(1, len(keras_losses) + 1)
    figure = Figure(figsize=(8, 6), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    # A thin line on a broad one shows both, though they nearly coincide.
    top.plot(epochs, keras_losses, color=pictures.KERAS, lw=8, label=keras_name)
    top.plot(
        epochs,
        tf_opt_losses,
        color=pictures.TF_OPT,
        lw=1.5,
        marker="o",
        ms=4,
        label=tf_opt_name,
    )
    top.set_yscale("log")
    top.set_ylabel("training loss (log scale)")
    top.set_title("Handwritten digits: the same training with two optimizers")
    top.legend(frameon=False)

    difference = np.abs(np.subtract(keras_losses, tf_opt_losses))
    bottom.plot(epochs, difference, color=pictures.NEUTRAL, marker="o", ms=4)
    bottom.set_yscale("log")
    bottom.set_ylabel("difference of\nthe two losses")
    bottom.set_xlabel("epoch")
    bottom.xaxis.get_major_locator().set_params(integer=True)
    pictures.save(figure, path)


def main() -> None:
    """Trains, compares, prints a table and writes a plot."""
    arguments = common.parse_arguments(
        "Trains on handwritten digits with Keras' AdamW and with tf_opt's, and "
        "compares.",
        epochs=12,
        plot="loss.png",
        plotted="the losses",
    )
    console = rich.console.Console()
    train_data, test_data = load_data()

    losses, scores, steps = {}, {}, {}
    for name, optimizer in make_optimizers().items():
        console.rule(f"Training with {name}")
        model = make_model()
        losses[name] = common.train(
            model,
            optimizer,
            train_data,
            batch_size=BATCH_SIZE,
            epochs=arguments.epochs,
            seed=SEED,
        )
        scores[name] = model.evaluate(*test_data, verbose=0, return_dict=True)
        batch = [array[:BATCH_SIZE] for array in train_data]
        steps[name] = common.make_step(model, *batch)
    milliseconds = common.time_in_turns(steps)

    table = rich.table.Table(
        title=f"{arguments.epochs} epochs of {len(train_data[0]):,} digits, "
        f"tested on {len(test_data[0])} others",
        caption="A step is optimizer.apply in a tf.function (median), on "
        f"{len(model.trainable_variables)} variables.",
    )
    table.add_column("optimizer")
    for column in ("test accuracy", "test loss", "ms per step"):
        table.add_column(column, justify="right")
    for name, score in scores.items():
        table.add_row(
            name,
            f"{score['accuracy']:.2%}",
            f"{score['loss']:.4f}",
            f"{milliseconds[name]:.2f}",
        )
    console.print(table)
    plot(losses, arguments.output)
    console.print(f"Both loss curves: {arguments.output}", soft_wrap=True)


if __name__ == "__main__":
    main()
