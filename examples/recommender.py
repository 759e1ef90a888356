"""Trains a two-tower recommender on sparse gradients, with three optimizers.

    python examples/recommender.py [--seconds N] [--output FILE]

The data are the functions of Python's standard library and their calls. From a
function's names and other calls, the model predicts a missing call. One tower
computes a vector for the function, the other one for the call. Their features
are hashed into two large embedding tables. A batch reads few rows of the
tables, and the gradients contain only these rows.

Keras' Adam and tf_opt's Adam update all rows in every step. With
`lazy_mode=True`, tf_opt's Adam only updates the rows that occur. All trainings
start from the same weights, see the same batches and take the same time. Each
optimizer trains once in `model.fit` and once in a custom loop.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

# TensorFlow reads this when it is imported.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import common
import keras
import rich.console
import rich.progress
import rich.table
import standard_library
import tensorflow as tf
import tf_opt
import two_towers
from matplotlib.figure import Figure

SEED = 0
# The number of tests during a training. One more comes before it.
TESTS = 12
HYPERPARAMETERS = {"learning_rate": 2e-3, "epsilon": 1e-7}
COLORS = ("#f5a04c", "#0b4f6c", "#3a9d5d")
STYLES = ("-", ":")


class Recorder(keras.callbacks.Callback):
    """Tests the model regularly, and ends the training when its time is over.

    The clock starts after the first step, which traces, and stops during tests.

    Args:
        data: The test data.
        budget: The seconds to train.
        advance: Called with the seconds of each step.

    Attributes:
        seconds: The time of each test.
        scores: The score of each test.
        steps: The number of timed steps.
    """

    def __init__(
        self,
        data: standard_library.Data,
        budget: float,
        advance: Callable[[float], None],
    ) -> None:
        super().__init__()
        self.data = data
        self.budget = budget
        self.advance = advance
        self.seconds: list[float] = []
        self.scores: list[two_towers.Score] = []
        self.steps = 0
        self._elapsed = 0.0
        self._started: float | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Tests the untrained model."""
        self._test()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Advances the clock; tests or ends the training when it is time."""
        if self._started is not None:
            step = time.perf_counter() - self._started
            self.advance(step)
            self._elapsed += step
            self.steps += 1
        if self._elapsed >= len(self.scores) / TESTS * self.budget:
            self._test()
        self.model.stop_training = self._elapsed >= self.budget
        self._started = time.perf_counter()

    def _test(self) -> None:
        self.seconds.append(self._elapsed)
        self.scores.append(two_towers.test(self.model, self.data))


def make_loss() -> keras.losses.Loss:
    """Makes the loss of a batch, which chooses among the batch's calls."""
    return keras.losses.CategoricalCrossentropy(from_logits=True)


def make_optimizers() -> dict[str, Callable[[], keras.optimizers.Optimizer]]:
    """Returns functions that make the optimizers, all with Keras' epsilon."""
    ours = functools.partial(tf_opt.Adam, **HYPERPARAMETERS, epsilon_hat=True)
    return {
        "keras.optimizers.Adam": functools.partial(
            keras.optimizers.Adam, **HYPERPARAMETERS
        ),
        "tf_opt.Adam": ours,
        "tf_opt.Adam, lazy_mode": functools.partial(ours, lazy_mode=True),
    }


def train_with_fit(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    batches: tf.data.Dataset,
    recorder: Recorder,
) -> None:
    """Trains with `fit`."""
    model.compile(
        optimizer=optimizer,
        loss=make_loss(),
        # With a GPU, Keras would choose XLA, which takes seconds to compile.
        jit_compile=False,
    )
    model.fit(batches, callbacks=[recorder], shuffle=False, verbose=0)


def train_in_loop(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    batches: tf.data.Dataset,
    recorder: Recorder,
) -> None:
    """Trains in a custom loop."""
    optimizer.build(model.trainable_variables)
    compute_loss = make_loss()

    @tf.function
    def step(inputs: dict[str, tf.Tensor], probabilities: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = compute_loss(probabilities, model(inputs, training=True))
        weights = [w.value for w in model.trainable_variables]
        # The tables' gradients are tf.IndexedSlices.
        optimizer.apply(tape.gradient(loss, weights), model.trainable_variables)

    recorder.set_model(model)
    recorder.on_train_begin()
    for number, batch in enumerate(batches):
        step(*batch)
        recorder.on_train_batch_end(number)
        if model.stop_training:
            break


def compare(
    data: standard_library.Data, budget: float
) -> dict[tuple[str, str], Recorder]:
    """Trains with each optimizer in each way, showing progress."""
    ways = {"fit": train_with_fit, "loop": train_in_loop}
    recorders = {}
    with rich.progress.Progress() as progress:
        for name, make_optimizer in make_optimizers().items():
            for way, train in ways.items():
                task = progress.add_task(f"{name}, {way}", total=budget)
                recorder = Recorder(
                    data, budget, functools.partial(progress.advance, task)
                )
                keras.utils.set_random_seed(SEED)  # The same weights.
                model = two_towers.TwoTowers()
                # A second pass over the same dataset would have another order.
                batches = two_towers.make_batches(data, SEED)
                train(model, make_optimizer(), batches, recorder)
                recorder.set_model(None)  # Frees the tables.
                recorders[name, way] = recorder
    return recorders


def make_table(
    recorders: dict[tuple[str, str], Recorder], budget: float
) -> rich.table.Table:
    """Makes a table of the optimizers' final scores and speeds."""
    start = next(iter(recorders.values())).scores[0]
    table = rich.table.Table(
        title=f"{budget:g} seconds of training, from a test loss of "
        f"{start.loss:.2f}",
        caption="Recall: the share of missing calls that are among the first "
        f"{two_towers.TOP}. The first step, which traces, isn't timed.",
    )
    table.add_column("optimizer")
    table.add_column("way")
    for column in (
        "test loss",
        f"recall@{two_towers.TOP}",
        "steps",
        "ms per step",
    ):
        table.add_column(column, justify="right")
    for (name, way), recorder in recorders.items():
        end = recorder.scores[-1]
        table.add_row(
            name,
            way,
            f"{end.loss:.2f}",
            f"{end.recall:.1%}",
            f"{recorder.steps}",
            f"{1e3 * recorder.seconds[-1] / recorder.steps:.1f}",
        )
    return table


def plot(
    recorders: dict[tuple[str, str], Recorder], path: pathlib.Path
) -> None:
    """Draws the loss against the seconds of training."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    looks = itertools.product(COLORS, STYLES)
    for ((name, way), recorder), (color, style) in zip(
        recorders.items(), looks, strict=True
    ):
        axes.plot(
            recorder.seconds,
            [score.loss for score in recorder.scores],
            color=color,
            ls=style,
            lw=2,
            label=f"{name}, {way}",
        )
    axes.set_xlabel("seconds of training")
    axes.set_ylabel("test loss")
    axes.set_title(
        f"Two towers, two tables of {two_towers.ROWS:,} x {two_towers.WIDTH}: "
        "which call is missing"
    )
    axes.legend(frameon=False)
    common.save_plot(figure, path)


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description="Trains a recommender with Keras' Adam, with tf_opt's and "
        "with its lazy mode, and compares."
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=6.0,
        help="how long each training is (default: %(default)s)",
    )
    common.add_output(parser, "recommender.png", "the losses")
    arguments = parser.parse_args()
    if not arguments.seconds > 0:
        parser.error(f"--seconds must be above 0, got {arguments.seconds}")
    return arguments


def main() -> None:
    """Trains, compares, prints a table and writes a plot."""
    arguments = parse_arguments()
    console = rich.console.Console()
    data = standard_library.load_data(two_towers.ROWS, SEED)
    console.print(
        f"{len(data.train.calls):,} calls to learn from, "
        f"{len(data.test.calls):,} to test with, "
        f"{len(data.catalogue):,} different ones",
        highlight=False,
    )
    recorders = compare(data, arguments.seconds)
    console.print(make_table(recorders, arguments.seconds))
    plot(recorders, arguments.output)
    console.print(f"The curves: {arguments.output}", soft_wrap=True)


if __name__ == "__main__":
    main()
