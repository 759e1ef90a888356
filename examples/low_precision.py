"""Compares trainings in float32 and in lower precision, with five seeds each.

    python examples/low_precision.py [--quick] [--output FILE]

A convolutional network learns scikit-learn's handwritten digits, and a small
transformer learns Python's standard library, character by character. The
variables, the optimizer's state or both are in bfloat16, in all the ways that
examples/precisions.py lists. With the same seed, all trainings start from the
same weights, rounded if necessary, and see the same batches.

Each training uses one thread, and each core runs one training at a time. That
takes about 8 minutes on two cores. The example also writes a `.csv` table
beside the plot.
"""

from __future__ import annotations

import os

# TensorFlow reads this when it is imported.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import concurrent.futures
import csv
import multiprocessing
import pathlib
from collections.abc import Iterable
from typing import NamedTuple

import common
import keras
import numpy as np
import pictures
import precisions
import rich.console
import rich.progress
import rich.table
import tensorflow as tf
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter
from precisions import FLOAT32, KERAS, PRECISIONS, QUICK_TASKS, TASKS, Task

SEEDS = 5
EPOCHS = 10
# Okabe's and Ito's colours, for colour-blind readers. Each type of variable has
# one colour. Dotted lines mean state in 16 bits.
LOOKS = {
    "float32": ("#000000", "-"),
    "float32, bfloat16 state": ("#000000", ":"),
    "mixed_bfloat16": ("#999999", "-"),
    "bfloat16, master weights": ("#0072b2", "-"),
    "bfloat16, master weights, bfloat16 state": ("#0072b2", ":"),
    "bfloat16, stochastic rounding": ("#009e73", "-"),
    "bfloat16, stochastic rounding, bfloat16 state": ("#009e73", ":"),
    "bfloat16, plain": ("#cc79a7", "-"),
    KERAS: (pictures.KERAS, "--"),
}


class Run(NamedTuple):
    """One training.

    Attributes:
        task: The task to learn.
        precision: The name in PRECISIONS.
        seed: The seed of weights, batches and random bits.
        epochs: The number of epochs.
    """

    task: Task
    precision: str
    seed: int
    epochs: int


class Result(NamedTuple):
    """Result of a training.

    Attributes:
        train_loss: The mean training loss of each epoch.
        test_loss: The test loss after each epoch.
        test_accuracy: The test accuracy after each epoch.
        bytes_per_parameter: The memory of the trained variables and the
            optimizer's state.
    """

    train_loss: np.ndarray
    test_loss: np.ndarray
    test_accuracy: np.ndarray
    bytes_per_parameter: float


def use_one_thread() -> None:
    """Initializes a worker process to use one thread."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def train(run: Run) -> Result:
    """Trains once."""
    task = run.task
    steps = run.epochs * task.steps
    model = precisions.make_model(run.precision, task.make_model, run.seed)
    model.compile(
        optimizer=precisions.make_optimizer(
            run.precision,
            keras.optimizers.schedules.CosineDecay(task.learning_rate, steps),
            run.seed,
        ),
        # The loss is float32 for all precisions.
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        # With a GPU, Keras would choose XLA, which takes seconds to compile.
        jit_compile=False,
    )
    batches, test_data = task.make_data(steps, run.seed)
    history = model.fit(
        batches,
        epochs=run.epochs,
        steps_per_epoch=task.steps,
        validation_data=test_data,
        validation_batch_size=len(test_data[0]),
        shuffle=False,
        verbose=0,
    ).history
    keras.backend.clear_session()
    return Result(
        np.array(history["loss"]),
        np.array(history["val_loss"]),
        np.array(history["val_accuracy"]),
        precisions.bytes_per_parameter(model),
    )


def train_all(runs: list[Run]) -> dict[Run, Result]:
    """Runs all trainings in processes and shows progress."""
    with (
        concurrent.futures.ProcessPoolExecutor(
            len(os.sched_getaffinity(0)),
            # TensorFlow doesn't survive a fork.
            mp_context=multiprocessing.get_context("spawn"),
            initializer=use_one_thread,
        ) as workers,
        rich.progress.Progress(
            *rich.progress.Progress.get_default_columns(),
            rich.progress.TimeElapsedColumn(),
        ) as progress,
    ):
        futures = {workers.submit(train, run): run for run in runs}
        done = concurrent.futures.as_completed(futures)
        return {
            futures[future]: future.result()
            for future in progress.track(
                done, len(runs), description="Training"
            )
        }


class Spread(NamedTuple):
    """Means and standard deviations over the seeds."""

    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, values: Iterable[np.ndarray]) -> Spread:
        """Computes mean and deviation over the first axis, the seeds."""
        values = np.array(list(values))
        # --quick has one seed, whose deviation is then 0.
        freedom = min(1, len(values) - 1)
        return cls(values.mean(0), values.std(0, ddof=freedom))

    def last(self) -> tuple[float, float]:
        """Returns the last mean and its deviation."""
        return float(self.mean[-1]), float(self.deviation[-1])


class Outcome(NamedTuple):
    """Summary of a precision's trainings.

    Attributes:
        bytes_per_parameter: The memory of the trained variables and the
            optimizer's state.
        train_loss: The training loss by epoch.
        test_loss: The test loss by epoch.
        test_accuracy: The test accuracy by epoch.
        train_gap: The difference of the training loss from float32's with the
            same seed, by epoch.
        test_gap: The difference of the test loss from float32's with the same
            seed, by epoch.
    """

    bytes_per_parameter: float
    train_loss: Spread
    test_loss: Spread
    test_accuracy: Spread
    train_gap: Spread
    test_gap: Spread


def compare(results: list[Result], float32: list[Result]) -> Outcome:
    """Summarizes the trainings of one precision, seed by seed."""
    pairs = list(zip(results, float32, strict=True))
    return Outcome(
        results[0].bytes_per_parameter,
        Spread.of(each.train_loss for each in results),
        Spread.of(each.test_loss for each in results),
        Spread.of(each.test_accuracy for each in results),
        Spread.of(ours.train_loss - usual.train_loss for ours, usual in pairs),
        Spread.of(ours.test_loss - usual.test_loss for ours, usual in pairs),
    )


def make_table(
    task: str, title: str, outcomes: dict[tuple[str, str], Outcome]
) -> rich.table.Table:
    """Makes a table of the final results of all trainings of a task."""
    table = rich.table.Table(
        title=title,
        caption="Mean ± standard deviation over the seeds. Above float32: "
        "the test loss, seed by seed.",
    )
    table.add_column("precision", overflow="fold")
    for column in (
        "bytes",
        "training loss",
        "test loss",
        "above float32",
        "test accuracy",
    ):
        table.add_column(column, justify="right")
    for (each, precision), outcome in outcomes.items():
        if each != task:
            continue
        accuracy, deviation = outcome.test_accuracy.last()
        table.add_row(
            precision,
            f"{outcome.bytes_per_parameter:.1f}",
            "{:.4f} ± {:.4f}".format(*outcome.train_loss.last()),
            "{:.4f} ± {:.4f}".format(*outcome.test_loss.last()),
            "{:+.4f} ± {:.4f}".format(*outcome.test_gap.last()),
            f"{accuracy:.2%} ± {deviation:.2%}",
        )
    return table


def write(outcomes: dict[tuple[str, str], Outcome], path: pathlib.Path) -> None:
    """Writes a table with the results of all trainings after each epoch."""
    spreads = [
        name for name in Outcome._fields if name != "bytes_per_parameter"
    ]
    header = ["task", "precision", "bytes_per_parameter", "epoch"]
    for name in spreads:
        header += [f"{name}_mean", f"{name}_deviation"]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for key, outcome in outcomes.items():
            size = f"{outcome.bytes_per_parameter:g}"
            columns = [
                column for name in spreads for column in getattr(outcome, name)
            ]
            for epoch, numbers in enumerate(zip(*columns, strict=True), 1):
                rounded = (f"{number:.6g}" for number in numbers)
                writer.writerow([*key, size, epoch, *rounded])


def _plot_curves(axes: Axes, outcomes: dict[str, Outcome]) -> None:
    """Draws each precision's training loss by epoch, with its spread."""
    for precision, outcome in outcomes.items():
        color, style = LOOKS[precision]
        mean, deviation = outcome.train_loss
        epochs = np.arange(1, len(mean) + 1)
        axes.plot(epochs, mean, color=color, ls=style, lw=2, label=precision)
        axes.fill_between(
            epochs,
            mean - deviation,
            mean + deviation,
            color=color,
            alpha=0.15,
            lw=0,
        )
    axes.set_yscale("log")
    # Powers of ten would be too coarse for one of the tasks.
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.5)))
    axes.set_xlabel("epoch")
    axes.set_ylabel("training loss (log scale)")
    axes.xaxis.get_major_locator().set_params(integer=True)


def _plot_gaps(axes: Axes, outcomes: dict[str, Outcome]) -> None:
    """Draws the difference of each final test loss from float32's."""
    names = [name for name in outcomes if name != FLOAT32]
    for row, name in enumerate(names):
        mean, deviation = outcomes[name].test_gap.last()
        color, style = LOOKS[name]
        if name == KERAS:  # On its scale the others would be one point.
            axes.annotate(
                f"+{mean:.2f} \N{RIGHTWARDS ARROW}",
                (0.99, row),
                xycoords=("axes fraction", "data"),
                ha="right",
                va="center",
                color=color,
            )
            continue
        axes.errorbar(
            mean,
            row,
            xerr=deviation,
            color=color,
            fmt="o" if style == "-" else "D",
            capsize=4,
        )
    axes.axvline(0, color=LOOKS[FLOAT32][0], lw=1)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel("test loss at the end, above float32's of the same seed")


def plot(
    titles: dict[str, str],
    outcomes: dict[tuple[str, str], Outcome],
    path: pathlib.Path,
) -> None:
    """Draws the curves of each task and the final differences."""
    figure = Figure(figsize=(12, 8), layout="constrained")
    panels = figure.subplots(2, len(titles), squeeze=False)
    for (task, title), (curves, gaps) in zip(
        titles.items(), panels.T, strict=True
    ):
        of_task = {
            name: outcome
            for (each, name), outcome in outcomes.items()
            if each == task
        }
        curves.set_title(title)
        _plot_curves(curves, of_task)
        _plot_gaps(gaps, of_task)
        gaps.label_outer()
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=3, frameon=False
    )
    pictures.save(figure, path)


def main() -> None:
    """Trains, compares, prints a table, writes it and a plot."""
    arguments = common.parse_quick_arguments(
        "Trains in float32, in bfloat16 and in between, and compares.",
        quick="a smaller network, once and briefly",
        plot="low-precision.png",
        plotted="the losses",
    )
    tasks = QUICK_TASKS if arguments.quick else TASKS
    seeds = range(1 if arguments.quick else SEEDS)
    epochs = 4 if arguments.quick else EPOCHS
    console = rich.console.Console()
    # In the order of seeds, so that the long trainings aren't all at the end.
    runs = [
        Run(task, precision, seed, epochs)
        for seed in seeds
        for task in tasks.values()
        for precision in PRECISIONS
    ]
    results = train_all(runs)

    def of(task: Task, precision: str) -> list[Result]:
        return [results[Run(task, precision, seed, epochs)] for seed in seeds]

    outcomes = {
        (name, precision): compare(of(task, precision), of(task, FLOAT32))
        for name, task in tasks.items()
        for precision in PRECISIONS
    }
    titles = {name: task.title for name, task in tasks.items()}
    for name, title in titles.items():
        console.print(make_table(name, title, outcomes))
    table = arguments.output.with_suffix(".csv")
    plot(titles, outcomes, arguments.output)
    write(outcomes, table)
    console.print(f"The curves: {arguments.output}", soft_wrap=True)
    console.print(f"The table: {table}", soft_wrap=True)


if __name__ == "__main__":
    main()
