"""Trains in float32 and with less, five seeds each, and compares.

    python examples/low_precision.py [--quick] [--output FILE]

A convolutional network learns scikit-learn's handwritten digits, and a small
transformer Python's own standard library, character by character. Variables,
the optimizer's state or both are in bfloat16, in all the ways that
examples/precisions.py lists. For a seed all start from the same weights,
rounded if need be, and see the same batches.

Each training has one thread, and as many run at a time as there are cores:
about 8 minutes on two. A table goes beside the plot, its ending is `.csv`.
"""

from __future__ import annotations

import os

# Before TensorFlow is imported.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import concurrent.futures
import multiprocessing
from collections.abc import Callable
from typing import NamedTuple

import common
import digits
import keras
import numpy as np
import precision_report
import precisions
import rich.console
import rich.progress
import small_transformer
import tensorflow as tf
from precisions import FLOAT32
from precisions import PRECISIONS

SEEDS = 5
EPOCHS = 10


class Task(NamedTuple):
    """Something to learn.

    Attributes:
        title: What it is.
        make_model: Makes the model of a seed.
        make_data: Makes the batches of a number of steps and a seed, and what
            to test with.
        steps: How many there are in an epoch.
        learning_rate: Of the first step; it falls to 0 along a cosine. Chosen
            with float32 alone.
    """

    title: str
    make_model: Callable[[int], keras.Model]
    make_data: Callable[
        [int, int], tuple[tf.data.Dataset, tuple[np.ndarray, ...]]
    ]
    steps: int
    learning_rate: float


class Run(NamedTuple):
    """One training.

    Attributes:
        task: What is learned.
        precision: Its name, in PRECISIONS.
        seed: Of weights, batches and random bits.
        epochs: How many there are.
    """

    task: Task
    precision: str
    seed: int
    epochs: int


def _digits(
    steps: int, seed: int
) -> tuple[tf.data.Dataset, tuple[np.ndarray, ...]]:
    """Handwritten digits, in another order in every epoch."""
    train_data, test_data = digits.load_data()
    batches = (
        tf.data.Dataset.from_tensor_slices(train_data)
        .shuffle(len(train_data[0]), seed=seed)
        .batch(digits.BATCH_SIZE)
    )
    return batches.repeat().take(steps), test_data


def _characters(
    steps: int, seed: int
) -> tuple[tf.data.Dataset, tuple[np.ndarray, ...]]:
    """Places of the standard library at random."""
    batch_size = 8
    windows = small_transformer.train_windows(steps * batch_size, seed)
    batches = tf.data.Dataset.from_tensor_slices(windows).batch(batch_size)
    return batches, small_transformer.test_windows(128)


def _small_model(seed: int) -> keras.Model:
    """A dense network for digits; the same weights for the same seed."""
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


# 23 steps show all digits once.
TASKS = {
    "digits": Task(
        title="Handwritten digits, convolutional network",
        make_model=digits.make_model,
        make_data=_digits,
        steps=23,
        learning_rate=1e-3,
    ),
    "characters": Task(
        title="Python's standard library, small transformer",
        make_model=small_transformer.make_model,
        make_data=_characters,
        steps=50,
        learning_rate=4e-3,
    ),
}
QUICK_TASKS = {
    "digits, dense": Task(
        title="Handwritten digits, dense network",
        make_model=_small_model,
        make_data=_digits,
        steps=23,
        learning_rate=1e-2,
    )
}


def use_one_thread() -> None:
    """What a worker does first."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def train(run: Run) -> precision_report.Result:
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
        # In float32, whatever the model computes in.
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        # On a machine with a GPU Keras would choose XLA, which takes seconds to
        # compile (benchmarks/compiled_fit.py).
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
    return precision_report.Result(
        np.array(history["loss"]),
        np.array(history["val_loss"]),
        np.array(history["val_accuracy"]),
        precisions.bytes_per_parameter(model),
    )


def train_all(runs: list[Run]) -> dict[Run, precision_report.Result]:
    """Trains as often as told, showing progress."""
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
    # Seed by seed: the long trainings aren't all at the end.
    runs = [
        Run(task, precision, seed, epochs)
        for seed in seeds
        for task in tasks.values()
        for precision in PRECISIONS
    ]
    results = train_all(runs)

    def of(task: Task, precision: str) -> list[precision_report.Result]:
        return [results[Run(task, precision, seed, epochs)] for seed in seeds]

    outcomes = {
        (name, precision): precision_report.compare(
            of(task, precision), of(task, FLOAT32)
        )
        for name, task in tasks.items()
        for precision in PRECISIONS
    }
    titles = {name: task.title for name, task in tasks.items()}
    for name, title in titles.items():
        console.print(precision_report.make_table(name, title, outcomes))
    table = arguments.output.with_suffix(".csv")
    precision_report.plot(titles, outcomes, arguments.output)
    precision_report.write(outcomes, table)
    console.print(f"The curves: {arguments.output}", soft_wrap=True)
    console.print(f"The table: {table}", soft_wrap=True)


if __name__ == "__main__":
    main()
