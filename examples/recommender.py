"""Trains a two-tower recommender on sparse gradients, with Adam and Adagrad.

    python examples/recommender.py [--steps N] [--seconds N] [--seed N]
        [--output FILE]

The data are the functions of Python's standard library and their calls. From a
function's names and other calls, the model predicts a missing call. One tower
computes a vector for the function, the other one for the call. Their features
are hashed into two large embedding tables. A batch reads few rows of the
tables, and the gradients contain only these rows.

Keras' Adam and tf_opt's Adam update all rows in every step. With
`lazy_mode=True`, tf_opt's Adam only updates the rows that occur, which is
faster but trains differently. With `lazy_mode="catch_up"` and the callback
`CatchUp`, a row makes up for the steps that it missed before it is read or
updated, so the training is that of `tf_opt.Adam`, up to rounding.

Adagrad leaves rows without a gradient alone. Keras' Adagrad goes over the whole
table nevertheless, tf_opt's only over the rows that occur. With
`row_wise=True`, a row has one accumulator instead of one for each element.

All trainings start from the same weights, see the same batches and take the
same number of steps, except that a training ends early if it takes too long.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

# TensorFlow reads this when it is imported.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import common
import keras
import pictures
import rich.console
import rich.progress
import rich.table
import standard_library
import tensorflow as tf
import tf_opt
import two_towers
from matplotlib.figure import Figure

# Chooses the functions to test with, and by default weights and batches.
SEED = 0
# The number of tests during a training. One more comes before it.
TESTS = 10
HYPERPARAMETERS = {"learning_rate": 2e-3, "epsilon": 1e-7}
# In most rows the gradients' squares are small beside Keras' first value, 0.1,
# with which Adagrad is nearly SGD there.
ADAGRAD = {
    "learning_rate": 0.02,
    "initial_accumulator_value": 0.0,
    "epsilon": 1e-12,
}


class Recorder(keras.callbacks.Callback):
    """Tests the model regularly, and ends a training that takes too long.

    The clock starts after the first step, which traces, and stops during tests.
    It doesn't stop while all rows catch up before a test.

    Args:
        data: The test data.
        optimizer: The optimizer.
        steps: The number of steps of the training.
        budget: The seconds after which it ends early.
        advance: Called after each step.

    Attributes:
        steps: The number of steps before each test.
        seconds: The time of each test.
        scores: The score of each test.
        state_bytes: The size of the optimizer's state, set after the training.
    """

    def __init__(
        self,
        data: standard_library.Data,
        optimizer: keras.optimizers.Optimizer,
        steps: int,
        budget: float,
        advance: Callable[[], None],
    ) -> None:
        super().__init__()
        self.data = data
        self.optimizer = optimizer
        self.total = steps
        self.budget = budget
        self.advance = advance
        self.steps: list[int] = []
        self.seconds: list[float] = []
        self.scores: list[two_towers.Score] = []
        self.state_bytes = 0
        self._elapsed = 0.0
        self._started: float | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Tests the untrained model."""
        self._test(0)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Advances the clock; tests or ends the training when it is time."""
        steps = batch + 1
        ends = self._elapsed >= self.budget
        test = ends or steps * TESTS // self.total > len(self.scores) - 1
        if test and getattr(self.optimizer, "lazy_mode", False) == "catch_up":
            self.optimizer.catch_up()
        if self._started is not None:
            self._elapsed += time.perf_counter() - self._started
        self.advance()
        if test:
            self._test(steps)
        self.model.stop_training = ends
        self._started = time.perf_counter()

    def _test(self, steps: int) -> None:
        self.steps.append(steps)
        self.seconds.append(self._elapsed)
        self.scores.append(two_towers.test(self.model, self.data))


def make_loss() -> keras.losses.Loss:
    """Makes the loss of a batch, which chooses among the batch's calls."""
    return keras.losses.CategoricalCrossentropy(from_logits=True)


def count_state_bytes(optimizer: keras.optimizers.Optimizer) -> int:
    """Returns the bytes of an optimizer's state, which must be built."""
    if hasattr(optimizer, "memory"):
        return sum(
            size
            for kinds in optimizer.memory().values()
            for kind, size in kinds.items()
            if kind != "variables"  # The model's.
        )
    return sum(
        math.prod(each.shape) * tf.as_dtype(each.dtype).size
        for each in optimizer.variables
    )


def train(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    batches: tf.data.Dataset,
    recorder: Recorder,
) -> None:
    """Trains a model."""
    model.compile(
        optimizer=optimizer,
        loss=make_loss(),
        # With a GPU, Keras would choose XLA, which takes seconds to compile.
        jit_compile=False,
    )
    # The first one does nothing unless the optimizer has rows that catch up.
    callbacks = [tf_opt.callbacks.CatchUp(), recorder]
    model.fit(batches, callbacks=callbacks, shuffle=False, verbose=0)


class Training(NamedTuple):
    """A training of the comparison: its optimizer and its curves."""

    name: str
    make_optimizer: Callable[[], keras.optimizers.Optimizer]
    color: str
    width: int = 2
    style: str = "-"


def make_trainings() -> list[Training]:
    """Returns all trainings, with the same epsilon in Keras and tf_opt."""
    make = functools.partial
    keras_adam = make(keras.optimizers.Adam, **HYPERPARAMETERS)
    adam = make(tf_opt.Adam, **HYPERPARAMETERS, epsilon_hat=True)
    lazy = make(adam, lazy_mode=True)
    catch_up = make(adam, lazy_mode="catch_up")
    keras_adagrad = make(keras.optimizers.Adagrad, **ADAGRAD)
    adagrad = make(tf_opt.Adagrad, **ADAGRAD)
    row_wise = make(adagrad, row_wise=True)
    # Wider below, since curves coincide.
    wide = 5
    return [
        Training("keras.optimizers.Adam", keras_adam, pictures.KERAS),
        Training("tf_opt.Adam", adam, pictures.TF_OPT_LIGHT, wide),
        Training("tf_opt.Adam, lazy_mode=True", lazy, pictures.TF_OPT_MEDIUM),
        Training(
            'tf_opt.Adam, lazy_mode="catch_up"', catch_up, pictures.TF_OPT
        ),
        Training(
            "keras.optimizers.Adagrad",
            keras_adagrad,
            pictures.KERAS,
            style="--",
        ),
        Training(
            "tf_opt.Adagrad", adagrad, pictures.TF_OPT_ADAGRAD_LIGHT, wide
        ),
        Training(
            "tf_opt.Adagrad, row_wise=True", row_wise, pictures.TF_OPT_ADAGRAD
        ),
    ]


def compare(
    data: standard_library.Data, steps: int, budget: float, seed: int
) -> list[tuple[Training, Recorder]]:
    """Runs all trainings, showing progress."""
    results = []
    with rich.progress.Progress() as progress:
        for training in make_trainings():
            task = progress.add_task(training.name, total=steps)
            optimizer = training.make_optimizer()
            advance = functools.partial(progress.advance, task)
            recorder = Recorder(data, optimizer, steps, budget, advance)
            keras.utils.set_random_seed(seed)  # The same weights.
            model = two_towers.TwoTowers()
            # A second pass over the same dataset would have another order.
            batches = two_towers.make_batches(data, seed)
            train(model, optimizer, batches.take(steps), recorder)
            recorder.state_bytes = count_state_bytes(optimizer)
            # It may have ended early.
            progress.update(task, total=recorder.steps[-1])
            # Frees the tables.
            recorder.set_model(None)
            recorder.optimizer = None
            results.append((training, recorder))
    return results


def make_table(
    results: list[tuple[Training, Recorder]],
) -> rich.table.Table:
    """Makes a table of the optimizers' state, final scores and speeds."""
    start = results[0][1].scores[0]
    table = rich.table.Table(
        title=f"Training from a test loss of {start.loss:.2f}",
        caption="Recall: the share of missing calls that are among the first "
        f"{two_towers.TOP}. The first step, which traces, isn't timed.",
    )
    table.add_column("optimizer")
    for column in (
        "bytes of state",
        "test loss",
        f"recall@{two_towers.TOP}",
        "steps",
        "seconds",
        "ms per step",
    ):
        table.add_column(column, justify="right")
    for training, recorder in results:
        end = recorder.scores[-1]
        table.add_row(
            training.name,
            f"{recorder.state_bytes:,}",
            f"{end.loss:.2f}",
            f"{end.recall:.1%}",
            f"{recorder.steps[-1]}",
            f"{recorder.seconds[-1]:.1f}",
            f"{1e3 * recorder.seconds[-1] / (recorder.steps[-1] - 1):.1f}",
        )
    return table


def plot(results: list[tuple[Training, Recorder]], path: pathlib.Path) -> None:
    """Draws the loss against the steps and against the seconds."""
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, x in zip(panels, ("steps", "seconds"), strict=True):
        for training, recorder in results:
            axes.plot(
                getattr(recorder, x),
                [score.loss for score in recorder.scores],
                color=training.color,
                ls=training.style,
                lw=training.width,
                zorder=-training.width,
                label=training.name,
            )
        axes.set_xlabel(f"{x} of training")
    panels[0].set_ylabel("test loss")
    panels[0].legend(frameon=False)
    # Speeds differ by more than ten. The test at 0 seconds isn't shown.
    panels[1].set_xscale("log", nonpositive="mask")
    panels[1].xaxis.set_major_formatter("{x:g}")
    figure.suptitle(
        f"Two towers, two tables of {two_towers.ROWS:,} x {two_towers.WIDTH}: "
        "which call is missing"
    )
    pictures.save(figure, path)


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description="Trains a recommender with Keras' Adam and Adagrad, and "
        "with tf_opt's, their lazy modes and row-wise state, and compares."
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=300,
        help="how long each training is (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=30.0,
        help="when a training ends early (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=SEED,
        help="chooses weights and batches, the same for all trainings "
        "(default: %(default)s)",
    )
    common.add_output(parser, "recommender.png", "the losses")
    arguments = parser.parse_args()
    if arguments.steps < 2:  # The first one isn't timed.
        parser.error(f"--steps must be at least 2, got {arguments.steps}")
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
    results = compare(data, arguments.steps, arguments.seconds, arguments.seed)
    console.print(make_table(results))
    plot(results, arguments.output)
    console.print(f"The curves: {arguments.output}", soft_wrap=True)


if __name__ == "__main__":
    main()
