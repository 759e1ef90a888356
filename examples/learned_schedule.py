"""Learns the learning rate of each step by gradients through the training.

    python examples/learned_schedule.py [--quick] [--output FILE]

A small network learns scikit-learn's handwritten digits in 100 steps of Adam.
The whole training is one function, `tf_opt.functional.unroll`, of its 100
learning rates. The example differentiates the final loss on other digits with
respect to the learning rates. A second Adam optimizes them, starting from the
best constant rate. A search finds the best constant rate and the best cosine
schedules. The comparison uses initial weights, batches and digits that none of
them has seen. It takes about a minute and a half on two cores.
"""

from __future__ import annotations

import os
import pathlib

# TensorFlow reads this when it is imported.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

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
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

BATCH_SIZE = 64
# The peak rates to try: 0.001 to 0.25, in half octaves.
PEAKS = 2.0 ** np.arange(-10, -1.5, 0.5)
OUTER_LEARNING_RATE = 0.03

Data = tuple[np.ndarray, np.ndarray]


class Size(NamedTuple):
    """Size of the experiment.

    Attributes:
        steps: The number of steps of a training.
        outer_steps: The number of steps that learn the rates.
        outer_batch: The number of trainings in each of these steps.
        choosing: The number of trainings that choose the best peak of a shape.
        testing: The number of trainings that compare the results.
    """

    steps: int
    outer_steps: int
    outer_batch: int
    choosing: int
    testing: int


FULL = Size(100, outer_steps=200, outer_batch=8, choosing=32, testing=100)
QUICK = Size(10, outer_steps=10, outer_batch=2, choosing=2, testing=10)

# Schedules to compare with: functions of the finished part of the training.
SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "best constant": np.ones_like,
    "best cosine": lambda part: (1 + np.cos(np.pi * part)) / 2,
    "best cosine after warm-up": lambda part: np.minimum(
        part / 0.1 + 0.1, (1 + np.cos(np.pi * (part - 0.1) / 0.9)) / 2
    ),
}
LEARNED = "learned"


def load_data() -> tuple[Data, Data, Data]:
    """Returns (pixels, labels) to train on, to choose rates, and to test."""
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype("float32")
    rest_x, test_x, rest_y, test_y = train_test_split(
        x, y, test_size=0.25, random_state=0, stratify=y
    )
    train_x, choose_x, train_y, choose_y = train_test_split(
        rest_x, rest_y, test_size=1 / 3, random_state=0, stratify=rest_y
    )
    return (train_x, train_y), (choose_x, choose_y), (test_x, test_y)


class Training:
    """Training and its score, as functions of learning rates and a seed."""

    def __init__(self, data: Data, steps: int) -> None:
        """Makes a model and stores its training data."""
        self._model = keras.Sequential(
            [
                keras.Input((64,)),
                keras.layers.Dense(32, activation="relu"),
                keras.layers.Dense(10),
            ]
        )
        self._x, self._y = map(tf.constant, data)
        self._steps = steps

    def start(self, seed: int) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Returns initial weights, and the digits of each step's batch."""
        generator = np.random.default_rng(seed)

        def first(shape: Sequence[int]) -> tf.Tensor:
            if len(shape) == 1:
                return tf.zeros(shape)
            limit = np.sqrt(6 / sum(shape))  # Glorot's initialization.
            return tf.constant(
                generator.uniform(-limit, limit, shape), "float32"
            )

        weights = [first(w.shape) for w in self._model.trainable_variables]
        digits = generator.integers(
            len(self._x), size=(self._steps, BATCH_SIZE)
        )
        return weights, tf.constant(digits)

    def score(
        self, weights: Sequence[tf.Tensor], x: tf.Tensor, y: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes cross-entropy and accuracy of the model for some weights."""
        logits, _ = self._model.stateless_call(weights, [], x)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
        correct = keras.ops.argmax(logits, -1) == keras.ops.cast(y, "int32")
        return tf.reduce_mean(losses), tf.reduce_mean(
            tf.cast(correct, "float32")
        )

    def run(
        self, rates: tf.Tensor, weights: list[tf.Tensor], digits: tf.Tensor
    ) -> list[tf.Tensor]:
        """Trains and returns the final weights."""

        def loss(weights, iteration):
            batch = digits[iteration]
            x, y = tf.gather(self._x, batch), tf.gather(self._y, batch)
            return self.score(weights, x, y)[0]

        return tf_opt.functional.unroll(
            tf_opt.functional.adam,
            loss,
            weights,
            self._steps,
            learning_rate=rates,
        ).variables

    def make_scorer(self, data: Data) -> Callable[..., np.ndarray]:
        """Returns a function from rates and seeds to scores, one row a seed."""
        x, y = map(tf.constant, data)

        @tf.function(jit_compile=True)
        def one(rates, weights, digits):
            return self.score(self.run(rates, weights, digits), x, y)

        def scores(rates: np.ndarray, seeds: Sequence[int]) -> np.ndarray:
            rates = tf.constant(rates, tf.float32)
            return np.array([one(rates, *self.start(seed)) for seed in seeds])

        return scores

    def make_gradient(self, data: Data) -> Callable[..., tuple]:
        """Returns a function from log rates and a seed to loss and gradient."""
        x, y = map(tf.constant, data)

        @tf.function(jit_compile=True)
        def one(logarithms, weights, digits):
            with tf.GradientTape() as tape:
                tape.watch(logarithms)
                end = self.run(tf.exp(logarithms), weights, digits)
                loss, _ = self.score(end, x, y)
            return loss, tape.gradient(loss, logarithms)

        return lambda logarithms, seed: one(logarithms, *self.start(seed))


def choose_by_hand(
    training: Training, data: Data, size: Size, seeds: Sequence[int]
) -> dict[str, np.ndarray]:
    """Finds the rates of each shape with the smallest loss over all peaks."""
    scores = training.make_scorer(data)
    part = np.arange(size.steps) / size.steps
    best = {}
    for name, shape in SHAPES.items():
        candidates = [peak * shape(part) for peak in PEAKS]
        losses = [
            scores(rates, seeds)[:, 0].mean()
            for rates in rich.progress.track(candidates, f"Trying: {name}")
        ]
        best[name] = candidates[int(np.argmin(losses))]
    return best


def learn(
    training: Training,
    data: Data,
    size: Size,
    start: np.ndarray,
    seeds: Iterator[int],
) -> np.ndarray:
    """Optimizes the rate of each step; each training has a new seed."""
    gradient = training.make_gradient(data)
    logarithms = tf.Variable(np.log(start), dtype="float32")
    optimizer = tf_opt.Adam(
        keras.optimizers.schedules.CosineDecay(
            OUTER_LEARNING_RATE, size.outer_steps
        )
    )
    with rich.progress.Progress(
        *rich.progress.Progress.get_default_columns(),
        rich.progress.TextColumn("loss {task.fields[loss]:.4f}"),
    ) as progress:
        task = progress.add_task(
            "Learning", total=size.outer_steps, loss=np.nan
        )
        for _ in range(size.outer_steps):
            losses, gradients = zip(
                *(
                    gradient(tf.convert_to_tensor(logarithms), next(seeds))
                    for _ in range(size.outer_batch)
                ),
                strict=True,
            )
            mean = tf.add_n(gradients) / size.outer_batch
            optimizer.apply([mean], [logarithms])
            progress.update(task, advance=1, loss=np.mean(losses))
    return np.exp(logarithms.numpy())


def make_table(scores: dict[str, np.ndarray]) -> rich.table.Table:
    """Makes a table of test scores and of the learned rates' wins."""
    learned = scores[LEARNED]
    table = rich.table.Table(
        title="Tested on other digits, from other weights, with other batches",
        caption=f"Mean ± standard deviation over {len(learned)} trainings.",
    )
    table.add_column("rates")
    for column in ("test loss", "test accuracy", "learned rates are better"):
        table.add_column(column, justify="right")
    for name, score in scores.items():
        loss, accuracy = score.T
        wins = np.mean(learned[:, 0] < loss)
        table.add_row(
            name,
            f"{loss.mean():.4f} ± {loss.std(ddof=1):.4f}",
            f"{accuracy.mean():.2%} ± {accuracy.std(ddof=1):.2%}",
            "" if name == LEARNED else f"{wins:.0%} of the trainings",
        )
    return table


def plot(
    rates: dict[str, np.ndarray],
    scores: dict[str, np.ndarray],
    path: pathlib.Path,
) -> None:
    """Draws the rates of each step and the test losses."""
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    colors = (
        pictures.NEUTRAL,
        pictures.TF_OPT_LIGHT,
        pictures.TF_OPT_MEDIUM,
        pictures.TF_OPT,
    )
    for (name, each), color in zip(rates.items(), colors, strict=True):
        left.plot(
            np.arange(1, len(each) + 1),
            each,
            color=color,
            lw=2 if name == LEARNED else 1.5,
            label=name,
        )
    left.set_xlabel("step")
    left.set_ylabel("learning rate")
    left.set_title("Handwritten digits: a learning rate for each step")
    left.legend(frameon=False)
    boxes = right.boxplot(
        [score[:, 0] for score in scores.values()],
        widths=0.6,
        patch_artist=True,
        medianprops={"color": "black"},
    )
    for box, color in zip(boxes["boxes"], colors, strict=True):
        box.set_facecolor(color)
    right.set_xticks(
        range(1, len(scores) + 1),
        [name.replace(" ", "\n", 2) for name in scores],
        fontsize=8,
    )
    right.set_ylabel("test loss after the last step")
    right.set_title("Other digits, weights and batches")
    pictures.save(figure, path)


def main() -> None:
    """Chooses, learns, compares; prints a table and writes a plot."""
    arguments = common.parse_quick_arguments(
        "Learns a learning rate for each step of a training by gradient, and "
        "compares it with constant rates and cosines.",
        quick="short trainings, and few",
        plot="learned_schedule.png",
        plotted="rates and losses",
    )
    size = QUICK if arguments.quick else FULL
    console = rich.console.Console()
    train_data, choose_data, test_data = load_data()
    training = Training(train_data, size.steps)
    # Trainings for choosing, learning and testing have different seeds.
    seeds = itertools.count()
    choosing = list(itertools.islice(seeds, size.choosing))
    testing = list(itertools.islice(seeds, size.testing))

    rates = choose_by_hand(training, choose_data, size, choosing)
    rates[LEARNED] = learn(
        training, choose_data, size, rates["best constant"], seeds
    )
    scorer = training.make_scorer(test_data)
    scores = {name: scorer(each, testing) for name, each in rates.items()}
    console.print(make_table(scores))
    plot(rates, scores, arguments.output)
    console.print(f"Rates and losses: {arguments.output}", soft_wrap=True)


if __name__ == "__main__":
    main()
