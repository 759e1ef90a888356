"""What the examples share: their command line, plots, and how they time."""

from __future__ import annotations

import argparse
import pathlib
import statistics
import time
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure

TIMED_STEPS = 300


def parse_arguments(
    description: str,
    *,
    epochs: int,
    fewest_epochs: int = 1,
    plot: str | None = None,
    plotted: str = "",
) -> argparse.Namespace:
    """The command line of an example.

    Args:
        description: What the example does.
        epochs: How many there are unless the user says otherwise.
        fewest_epochs: How many there must be.
        plot: The name of the file it plots into; None if it doesn't plot.
        plotted: What that shows.

    Returns:
        The user's `epochs` and, if it plots, `output`.
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
    """The command line of an example that can also be run briefly.

    Args:
        description: What the example does.
        quick: What is less then.
        plot: The name of the file it plots into.
        plotted: What that shows.

    Returns:
        The user's `quick` and `output`.
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
        plot: The name of the file it plots into.
        plotted: What that shows.
    """
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("build/demo") / plot,
        metavar="FILE",
        help=f"where the plot of {plotted} goes (default: %(default)s)",
    )


def save_plot(figure: Figure, path: pathlib.Path) -> None:
    """Gives all axes the same look and writes the figure."""
    for axes in figure.axes:
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def make_step(
    model: keras.Model, inputs: np.ndarray, labels: np.ndarray
) -> Callable[[], None]:
    """The optimizer step alone, on the model's gradients for a batch."""
    with tf.GradientTape() as tape:
        loss = model.compute_loss(y=labels, y_pred=model(inputs, training=True))
    gradients = tape.gradient(loss, model.trainable_weights)

    @tf.function
    def step() -> None:
        model.optimizer.apply(gradients, model.trainable_variables)

    return step


def time_in_turns(steps: dict[str, Callable[[], None]]) -> dict[str, float]:
    """The median milliseconds of each step, taken in turns."""
    times = {name: [] for name in steps}
    for step in steps.values():
        step()  # Traces it.
    for _ in range(TIMED_STEPS):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(times[name]) for name in steps}
