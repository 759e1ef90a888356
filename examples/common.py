"""Common parts of the examples: command line, training, plots and timing."""

from __future__ import annotations

import argparse
import pathlib
import statistics
import sys
import time
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

TIMED_STEPS = 300


def parse_arguments(
    description: str,
    *,
    epochs: int,
    fewest_epochs: int = 1,
    plot: str | None = None,
    plotted: str = "",
) -> argparse.Namespace:
    """Parses the command line of an example.

    Args:
        description: The description of the example.
        epochs: The default number of epochs.
        fewest_epochs: The smallest allowed number of epochs.
        plot: The file name of the plot; None without a plot.
        plotted: The contents of the plot, for the help text.

    Returns:
        The arguments `epochs` and, with a plot, `output`.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--epochs", type=int, default=epochs, help="(default: %(default)s)"
    )
    if plot is not None:
        add_output(parser, plot, plotted)
    arguments = parser.parse_args()
    if arguments.epochs < fewest_epochs:
        parser.error(
            f"--epochs must be at least {fewest_epochs}, got {arguments.epochs}"
        )
    return arguments


def parse_quick_arguments(
    description: str, *, quick: str, plot: str, plotted: str
) -> argparse.Namespace:
    """Parses the command line of an example with a quick mode.

    Args:
        description: The description of the example.
        quick: The description of the quick mode, for the help text.
        plot: The file name of the plot.
        plotted: The contents of the plot, for the help text.

    Returns:
        The arguments `quick` and `output`.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{quick}, to see that everything runs",
    )
    add_output(parser, plot, plotted)
    return parser.parse_args()


def add_output(
    parser: argparse.ArgumentParser, plot: str, plotted: str
) -> None:
    """Adds `--output` to the command line of an example.

    Args:
        parser: The command line.
        plot: The file name of the plot.
        plotted: The contents of the plot, for the help text.
    """
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("build/demo") / plot,
        metavar="FILE",
        help=f"where the plot of {plotted} goes (default: %(default)s)",
    )


def train(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    data: tuple[np.ndarray, ...],
    *,
    batch_size: int,
    epochs: int,
    seed: int,
) -> list[float]:
    """Trains a classifier and returns the loss after each epoch."""
    model.compile(
        optimizer=optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        # With a GPU, Keras would choose XLA, which takes seconds to compile.
        jit_compile=False,
    )
    keras.utils.set_random_seed(seed)  # All optimizers see the same batches.
    history = model.fit(
        *data,
        batch_size=batch_size,
        epochs=epochs,
        # A progress bar would flood a log file.
        verbose=1 if sys.stdout.isatty() else 2,
    )
    return history.history["loss"]


def make_step(
    model: keras.Model, inputs: np.ndarray, labels: np.ndarray
) -> Callable[[], None]:
    """Returns a function that runs only the optimizer, on fixed gradients."""
    with tf.GradientTape() as tape:
        loss = model.compute_loss(y=labels, y_pred=model(inputs, training=True))
    gradients = tape.gradient(loss, model.trainable_weights)

    @tf.function
    def step() -> None:
        model.optimizer.apply(gradients, model.trainable_variables)

    return step


def time_in_turns(steps: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Runs the steps in turns; returns the median milliseconds of each."""
    times = {name: [] for name in steps}
    for step in steps.values():
        step()  # The first call traces.
    for _ in range(TIMED_STEPS):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(times[name]) for name in steps}
