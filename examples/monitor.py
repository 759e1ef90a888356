"""Watches trainings in bfloat16 with tf_opt.callbacks.Monitor.

    python examples/monitor.py [--epochs N] [--output FILE]

A convolutional network learns scikit-learn's handwritten digits in bfloat16,
with and without master weights. Both trainings start from the same weights and
see the same batches. The learning rate rises during the first fifth of the
steps and then falls to 0. The plot shows how many updates are lost, the losses,
and how far each layer moves.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any, NamedTuple

# TensorFlow reads this when it is imported.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import common
import digits
import keras
import numpy as np
import pictures
import precisions
import rich.console
import tf_opt
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

SEED = 0
LEARNING_RATE = 1e-3
EVERY = 2
# Okabe's and Ito's colours, as in examples/low_precision.py.
PRECISIONS = {
    "bfloat16, plain": "#e69f00",
    "bfloat16, master weights": "#0072b2",
}


class Curves(NamedTuple):
    """What was seen of a training.

    Attributes:
        steps: The steps that `Monitor` showed.
        unmoved: The share of all weights that each of these steps left alone.
        ratios: Each layer's ratio of update to weight in these steps.
        losses: The mean loss of each epoch.
    """

    steps: np.ndarray
    unmoved: np.ndarray
    ratios: dict[str, np.ndarray]
    losses: list[float]


class KeepLogs(keras.callbacks.Callback):
    """Keeps the entries of `logs` that compare variables, by step."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[int, dict[str, float]] = {}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Keeps the entries of a batch that has any."""
        found = {name: logs[name] for name in logs if "/" in name}
        if found:
            self.found[int(self.model.optimizer.iterations.numpy())] = found


def train(precision: str, epochs: int) -> Curves:
    """Trains in a precision of examples/precisions.py."""
    data, _ = digits.load_data()
    steps = epochs * -(-len(data[0]) // digits.BATCH_SIZE)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0,
        steps - steps // 5,
        warmup_target=LEARNING_RATE,
        warmup_steps=steps // 5,
    )
    model = precisions.make_model(precision, digits.make_model, SEED)
    model.compile(
        optimizer=precisions.make_optimizer(precision, schedule, SEED),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        # With a GPU, Keras would choose XLA, which takes seconds to compile.
        jit_compile=False,
    )
    kept = KeepLogs()
    keras.utils.set_random_seed(SEED)  # All trainings see the same batches.
    history = model.fit(
        *data,
        batch_size=digits.BATCH_SIZE,
        epochs=epochs,
        callbacks=[
            tf_opt.callbacks.Monitor(every_n_batches=EVERY, variables="kernel"),
            kept,
        ],
        verbose=0,
    )
    sizes = {
        variable.path: np.prod(variable.shape)
        for variable in model.trainable_variables
        if "kernel" in variable.path
    }
    found = kept.found.values()
    return Curves(
        np.array(list(kept.found)),
        np.array(
            [
                np.average(
                    [each[f"unmoved/{path}"] for path in sizes],
                    weights=list(sizes.values()),
                )
                for each in found
            ]
        ),
        {
            path: np.array([each[f"update_ratio/{path}"] for each in found])
            for path in sizes
        },
        history.history["loss"],
    )


def plot(curves: dict[str, Curves], path: pathlib.Path) -> None:
    """Draws lost updates, losses, and how far each layer moves."""
    figure = Figure(figsize=(12, 4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for precision, each in curves.items():
        look = {"color": PRECISIONS[precision], "lw": 2, "label": precision}
        left.plot(each.steps, each.unmoved, **look)
        middle.plot(range(1, len(each.losses) + 1), each.losses, **look)
    left.set_ylim(0, 1.02)
    left.set_ylabel("unmoved, mean over all kernels")
    left.set_title("Share of elements that don't move")
    middle.set_yscale("log")
    middle.set_ylabel("loss (log scale)")
    middle.set_xlabel("epoch")
    middle.xaxis.get_major_locator().set_params(integer=True)
    middle.set_title("Training loss")
    _plot_ratios(right, curves["bfloat16, master weights"])
    for axes in (left, right):
        axes.set_xlabel("step")
    for axes in (left, middle):
        axes.legend(frameon=False)
    pictures.save(figure, path)


def _plot_ratios(axes: Axes, curves: Curves) -> None:
    """Draws the ratio of update to weight of each layer."""
    shades = np.linspace(0, 0.9, len(curves.ratios))
    for i, (path, ratios) in enumerate(curves.ratios.items()):
        # Keras numbers the layers of all models together.
        layer = path.split("/")[-2].rstrip("_0123456789")
        color = colormaps["viridis"](shades[i])
        axes.plot(curves.steps, ratios, color=color, label=f"{i + 1}: {layer}")
    axes.set_yscale("log")
    axes.set_ylim(bottom=1e-6)
    axes.set_ylabel("update_ratio (log scale)")
    axes.set_title("How far a step moves each kernel")
    axes.legend(
        title="bfloat16, master weights",
        frameon=False,
        fontsize="small",
        ncols=2,
    )


def main() -> None:
    """Trains twice, prints what was seen and writes a plot."""
    arguments = common.parse_arguments(
        "Watches trainings in bfloat16 with tf_opt.callbacks.Monitor.",
        epochs=20,
        plot="monitor.png",
        plotted="the curves",
    )
    console = rich.console.Console()
    table = rich.table.Table(
        title=f"{arguments.epochs} epochs of handwritten digits"
    )
    table.add_column("precision")
    for column in ("unmoved, median over the steps", "loss"):
        table.add_column(column, justify="right")
    curves = {}
    for precision in PRECISIONS:
        with console.status(f"Training in {precision}"):
            curves[precision] = each = train(precision, arguments.epochs)
        table.add_row(
            precision,
            f"{np.median(each.unmoved):.1%}",
            f"{each.losses[-1]:.4f}",
        )
    console.print(table)
    plot(curves, arguments.output)
    console.print(f"The curves: {arguments.output}", soft_wrap=True)


if __name__ == "__main__":
    main()
