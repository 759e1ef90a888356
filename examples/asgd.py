"""Solves ridge regression with tf_opt.ASGD, to float64 precision.

    python examples/asgd.py [--epochs N] [--output FILE]

The data are scikit-learn's 442 diabetes patients, in 26 fixed batches of 17.
After every epoch, the example compares the weights with the exact solution.
With a constant step size, SGD stalls at a distance from the solution. With
steps of the same size and cost, ASGD converges to it, whether it visits the
batches in order or shuffled.
"""

from __future__ import annotations

import functools
import math
import os
import pathlib
from collections.abc import Callable
from typing import NamedTuple

# TensorFlow reads this when it is imported.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import common
import keras
import numpy as np
import pictures
import rich.console
import rich.progress
import rich.table
import tensorflow as tf
import tf_opt
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

# 442 = 26 * 17: all batches have the same size, so the mean of their losses is
# the loss of all data.
BATCH_SIZE = 17
# Exact in float32, through which Keras passes the number.
RIDGE = 0.125
SEED = 0
ROW_EVERY = 50
# The range of distances from which to measure the rate. Larger ones depend on
# more than the slowest direction, smaller ones on rounding.
RATE_RANGE = (1e-3, 1e-12)
COLORS = (pictures.NEUTRAL, pictures.TF_OPT, pictures.TF_OPT_MEDIUM)
STYLES = ("-", "-", "--")


class Problem(NamedTuple):
    """Ridge regression, which minimizes the mean of (x w - y)^2 + RIDGE |w|^2.

    Attributes:
        x: Standardized inputs.
        y: Standardized targets, a column.
        solution: The exact weights, a column.
        curvatures: The eigenvalues of the loss's second derivative, ascending.
        batch_curvature: The largest curvature of any batch.
    """

    x: np.ndarray
    y: np.ndarray
    solution: np.ndarray
    curvatures: np.ndarray
    batch_curvature: float

    @property
    def batches(self) -> int:
        """The number of batches."""
        return len(self.x) // BATCH_SIZE

    @property
    def learning_rate(self) -> float:
        """The step size, 1 / (4 L), with L the largest curvature of a batch.

        Convergence is proven for 1 / (16 L), if batches are drawn at random.
        If each batch is visited once an epoch, ASGD diverges above about
        `largest_stable`, because gradients are up to an epoch old. On these
        data 1 / (4 L) is a little smaller.
        """
        return 1 / (4 * self.batch_curvature)

    @property
    def largest_stable(self) -> float:
        """The step size above which ASGD diverges, approximately."""
        return math.pi**2 / (2 * self.batches * self.curvatures[-1])

    @property
    def full_gradient_rate(self) -> float:
        """The factor by which as many full gradient steps shrink the error."""
        return (1 - self.learning_rate * self.curvatures[0]) ** self.batches


def second_derivative(x: np.ndarray) -> np.ndarray:
    """Computes the second derivative of the loss by the weights."""
    return 2 * (x.T @ x / len(x) + RIDGE * np.eye(x.shape[1]))


def load_problem() -> Problem:
    """Loads the data and solves the normal equations."""
    x, y = load_diabetes(return_X_y=True)
    x, y = scale(x), scale(y)[:, np.newaxis]
    batches = np.split(x, len(x) // BATCH_SIZE)
    hessian = second_derivative(x)
    return Problem(
        x=x,
        y=y,
        solution=np.linalg.solve(hessian, 2 * x.T @ y / len(x)),
        curvatures=np.linalg.eigvalsh(hessian),
        batch_curvature=max(
            np.linalg.eigvalsh(second_derivative(batch))[-1]
            for batch in batches
        ),
    )


class RecordDistance(keras.callbacks.Callback):
    """Records the distance of the weights from the solution after each epoch.

    Args:
        solution: The exact weights.
        advance: Called after each epoch, to show progress.

    Attributes:
        distances: The distance after each epoch.
    """

    def __init__(
        self, solution: np.ndarray, advance: Callable[[], None]
    ) -> None:
        super().__init__()
        self.solution = solution
        self.advance = advance
        self.distances: list[float] = []

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Measures the distance."""
        (weights,) = self.model.get_weights()
        self.distances.append(float(np.linalg.norm(weights - self.solution)))
        self.advance()


def train(
    problem: Problem,
    optimizer: keras.optimizers.Optimizer,
    *,
    shuffled: bool,
    epochs: int,
    advance: Callable[[], None],
) -> list[float]:
    """Fits the weights; returns their distance after each epoch."""
    model = keras.Sequential(
        [
            keras.Input((problem.x.shape[1],)),
            keras.layers.Dense(
                1,
                use_bias=False,
                kernel_initializer="zeros",
                kernel_regularizer=keras.regularizers.L2(RIDGE),
            ),
        ]
    )
    model.compile(
        optimizer=optimizer,
        loss="mean_squared_error",
        steps_per_execution=problem.batches,
        # With a GPU, Keras would choose XLA, which takes seconds to compile.
        jit_compile=False,
    )
    record = RecordDistance(problem.solution, advance)
    if shuffled:
        batches = tf_opt.callbacks.ShuffledBatches(
            problem.x, problem.y, batch_size=BATCH_SIZE, seed=SEED
        )
        data, callbacks = batches.dataset, [batches, record]
    else:
        data = tf.data.Dataset.from_tensor_slices((problem.x, problem.y))
        data, callbacks = data.batch(BATCH_SIZE), [record]
    model.fit(
        data, epochs=epochs, callbacks=callbacks, shuffle=False, verbose=0
    )
    return record.distances


def compare(problem: Problem, epochs: int) -> dict[str, list[float]]:
    """Trains with all optimizers; shows progress and returns distances."""
    learning_rate = problem.learning_rate
    contenders = {
        "SGD": (keras.optimizers.SGD(learning_rate), False),
        "ASGD, in order": (
            tf_opt.ASGD(learning_rate, batch_num=problem.batches),
            False,
        ),
        "ASGD, shuffled": (
            tf_opt.ASGD(learning_rate, batch_num=problem.batches),
            True,
        ),
    }
    distances = {}
    with rich.progress.Progress() as progress:
        for name, (optimizer, shuffled) in contenders.items():
            task = progress.add_task(name, total=epochs)
            distances[name] = train(
                problem,
                optimizer,
                shuffled=shuffled,
                epochs=epochs,
                advance=functools.partial(progress.advance, task),
            )
    return distances


def measured_rate(distances: list[float]) -> float | None:
    """Fits the factor per epoch to the distances in RATE_RANGE."""
    largest, smallest = RATE_RANGE
    values = np.array(distances)
    epochs = np.flatnonzero((values < largest) & (values > smallest))
    if len(epochs) < 2:
        return None
    return 10 ** np.polyfit(epochs, np.log10(values[epochs]), 1)[0]


def make_table(distances: dict[str, list[float]]) -> rich.table.Table:
    """Makes a table of distances every ROW_EVERY epochs, and of rates."""
    table = rich.table.Table(title="Distance from the exact solution")
    table.add_column("epoch", justify="right")
    for name in distances:
        table.add_column(name, justify="right")
    epochs = len(next(iter(distances.values())))
    for epoch in sorted({1, *range(ROW_EVERY, epochs + 1, ROW_EVERY), epochs}):
        table.add_row(
            str(epoch),
            *(f"{each[epoch - 1]:.1e}" for each in distances.values()),
        )
    table.add_section()
    rates = map(measured_rate, distances.values())
    table.add_row(
        "factor per epoch",
        *("none" if rate is None else f"{rate:.4f}" for rate in rates),
    )
    return table


def plot(distances: dict[str, list[float]], path: pathlib.Path) -> None:
    """Draws the distances after each epoch."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for (name, each), color, style in zip(
        distances.items(), COLORS, STYLES, strict=True
    ):
        epochs = range(1, len(each) + 1)
        axes.plot(epochs, each, color=color, ls=style, lw=2, label=name)
    axes.set_yscale("log")
    axes.set_xlabel("epoch")
    axes.set_ylabel("distance from the exact solution (log scale)")
    axes.set_title("Ridge regression on the diabetes data, equal step sizes")
    axes.legend(frameon=False)
    pictures.save(figure, path)


def main() -> None:
    """Trains, compares, prints a table and writes a plot."""
    arguments = common.parse_arguments(
        "Solves ridge regression with SGD and with tf_opt.ASGD, and compares.",
        epochs=300,
        plot="asgd.png",
        plotted="the distances",
    )
    console = rich.console.Console()
    keras.config.set_floatx("float64")
    problem = load_problem()
    console.print(
        f"Step size: 1 / (4 L) = {problem.learning_rate:.4f}, L the largest "
        f"curvature of a batch. Proven is 1 / (16 L) = "
        f"{problem.learning_rate / 4:.4f}; above about "
        f"{problem.largest_stable:.4f} ASGD diverges.",
        highlight=False,
    )
    distances = compare(problem, arguments.epochs)
    console.print(make_table(distances))
    console.print(
        "With the gradient of all data as many steps of that size would make "
        f"{problem.full_gradient_rate:.4f} per epoch.",
        highlight=False,
    )
    plot(distances, arguments.output)
    console.print(f"The curves: {arguments.output}", soft_wrap=True)


if __name__ == "__main__":
    main()
