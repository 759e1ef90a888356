"""Trains a transformer with AdamW, ScheduleFreeAdamW, Muon, Adafactor and Lamb.

    python examples/five_optimizers.py [--quick] [--output FILE]

A small transformer learns Python's standard library, character by character.
Each optimizer has the best of a few learning rates, found with seed 0, and
three seeds; AdamW, Muon and Lamb have a cosine schedule with warmup.
ScheduleFreeAdamW and Adafactor need none. The test loss is that of the average
for ScheduleFreeAdamW. One training runs at a time, so that seconds compare:
about 6 minutes on two cores.
"""

from __future__ import annotations

import os

# TensorFlow reads this when it is imported.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import common
import keras
import numpy as np
import pictures
import precisions
import rich.console
import rich.progress
import rich.table
import tf_opt
from matplotlib.figure import Figure

SEEDS = 3
EPOCHS = 20
TASK = precisions.TASKS["characters"]
# Okabe's and Ito's colours.
COLORS = (*("#000000", "#0072b2", "#d55e00", "#e69f00", "#009e73", "#cc79a7"),)


def cosine(rate: float) -> keras.optimizers.schedules.CosineDecay:
    """Returns a schedule for the whole training, with 50 steps of warmup."""
    return keras.optimizers.schedules.CosineDecay(
        0.0, EPOCHS * TASK.steps - 50, warmup_target=rate, warmup_steps=50
    )


def muon(**options: bool) -> keras.optimizers.Optimizer:
    """Returns Muon for the hidden layers.

    The last layer is no hidden one, and positions are like an embedding.
    """
    return tf_opt.Muon(
        cosine(1e-2),
        weight_decay=0.02,
        adam_weight_decay=0.02,
        exclude_layers=["positions", "last"],
        **options,
    )


# Weight decay is chosen so that rate times decay is alike.
OPTIMIZERS: Mapping[str, Callable[[], keras.optimizers.Optimizer]] = {
    "AdamW": lambda: tf_opt.AdamW(cosine(4e-3), weight_decay=0.05),
    "ScheduleFreeAdamW": lambda: tf_opt.ScheduleFreeAdamW(
        8e-3, weight_decay=0.025, warmup_steps=50
    ),
    "Muon": muon,
    "Muon in bfloat16": lambda: muon(ns_bfloat16=True),
    "Adafactor": lambda: tf_opt.Adafactor(3e-2, weight_decay=0.007),
    "Lamb": lambda: tf_opt.Lamb(cosine(1e-2), weight_decay=0.02),
}


class Curve(NamedTuple):
    """Test losses after each epoch, and the seconds of training until then."""

    losses: np.ndarray
    seconds: np.ndarray


class _Clock(keras.callbacks.Callback):
    """Callback that measures the time of training, without evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        """Starts the clock."""
        self._started = time.perf_counter()

    def on_test_begin(self, logs: object = None) -> None:
        """Stops it."""
        self.seconds.append(time.perf_counter() - self._started)


def train(
    make: Callable[[], keras.optimizers.Optimizer], seed: int, epochs: int
) -> Curve:
    """Trains once."""
    model = TASK.make_model(seed)
    model.compile(
        make(),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    batches, test_data = TASK.make_data(epochs * TASK.steps, seed)
    clock, callbacks = _Clock(), []
    if isinstance(model.optimizer, tf_opt.ScheduleFreeAdamW):
        callbacks = [tf_opt.callbacks.SwapAveragedWeights()]
    history = model.fit(
        batches,
        epochs=epochs,
        steps_per_epoch=TASK.steps,
        validation_data=test_data,
        validation_batch_size=len(test_data[0]),
        shuffle=False,
        verbose=0,
        callbacks=[clock, *callbacks],
    ).history
    keras.backend.clear_session()
    # The first epoch traces.
    clock.seconds[0] = float(np.median(clock.seconds[1:]))
    return Curve(np.array(history["val_loss"]), np.cumsum(clock.seconds))


def make_table(curves: Mapping[str, list[Curve]]) -> rich.table.Table:
    """Makes a table of the results."""
    table = rich.table.Table(caption="Mean ± standard deviation over the seeds")
    table.add_column("optimizer")
    for column in ("test loss half-way", "at the end", "ms a step"):
        table.add_column(column, justify="right")
    for name, found in curves.items():
        losses = np.array([curve.losses for curve in found])
        half, end = (
            f"{x.mean():.3f} ± {x.std(ddof=min(1, len(x) - 1)):.3f}"
            for x in (losses[:, losses.shape[1] // 2 - 1], losses[:, -1])
        )
        steps = losses.shape[1] * TASK.steps
        each = np.median([curve.seconds[-1] for curve in found]) / steps
        table.add_row(name, half, end, f"{1e3 * each:.1f}")
    return table


def draw(curves: Mapping[str, list[Curve]]) -> Figure:
    """Draws the mean test losses over steps and over seconds."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, label in zip(
        figure.subplots(1, 2, sharey=True), ("steps", "seconds"), strict=True
    ):
        for (name, found), color in zip(curves.items(), COLORS, strict=True):
            losses = np.mean([curve.losses for curve in found], axis=0)
            x = TASK.steps * np.arange(1, len(losses) + 1)
            if label == "seconds":
                x = np.median([curve.seconds for curve in found], axis=0)
            axes.plot(x, losses, color=color, label=name)
        axes.set_xlabel(label)
    axes.legend()
    figure.axes[0].set_ylabel("test loss")
    return figure


def main() -> None:
    """Trains with all optimizers and shows the results."""
    arguments = common.parse_quick_arguments(
        __doc__.splitlines()[0],
        quick="train for two epochs with one seed",
        plot="five_optimizers.png",
        plotted="test losses",
    )
    epochs, seeds = (2, 1) if arguments.quick else (EPOCHS, SEEDS)
    runs = [(name, seed) for seed in range(seeds) for name in OPTIMIZERS]
    curves: dict[str, list[Curve]] = {name: [] for name in OPTIMIZERS}
    for name, seed in rich.progress.track(runs, "Training"):
        curves[name].append(train(OPTIMIZERS[name], seed, epochs))
    rich.console.Console().print(make_table(curves))
    pictures.save(draw(curves), arguments.output)
    print(f"Plot: {arguments.output}")


if __name__ == "__main__":
    main()
