"""Times whole `fit`s of examples/digits.py's network, compiled by XLA and not.

    python benchmarks/compiled_fit.py [--rounds N] [--epochs N]

What a user waits for: the first epoch, which traces and compiles, and the later
ones. It prints a table, with the loss that each has come to.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shlex
import statistics
import sys
import time

# Before the imports that import TensorFlow.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
sys.path.append(str(pathlib.Path(__file__).parents[1] / "examples"))

import digits
import keras
import rich.console
import rich.progress

import machine
import terminal
from table import Table


class _EpochTimes(keras.callbacks.Callback):
    """How long each epoch takes, in seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Starts the clock."""
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Stops it."""
        self.seconds.append(time.perf_counter() - self._start)


def _fit(
    optimizer_name: str, jit_compile: bool, epochs: int
) -> tuple[list[float], float]:
    """The seconds of each epoch, and the last one's loss."""
    model = digits.make_model()
    model.compile(
        optimizer=digits.make_optimizers()[optimizer_name],
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=jit_compile,
    )
    times = _EpochTimes()
    keras.utils.set_random_seed(digits.SEED)
    history = model.fit(
        *digits.load_data()[0],
        batch_size=digits.BATCH_SIZE,
        epochs=epochs,
        verbose=0,
        callbacks=[times],
    )
    keras.backend.clear_session()
    return times.seconds, history.history["loss"][-1]


def main() -> None:
    """Runs the benchmark that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=8)
    arguments = parser.parse_args()
    if arguments.epochs < 2:
        parser.error(f"--epochs must be at least 2, got {arguments.epochs}")
    console = rich.console.Console()
    contenders = [
        (name, jit_compile)
        for jit_compile in (True, False)
        for name in digits.make_optimizers()
    ]
    first: dict[tuple[str, bool], list[float]] = {x: [] for x in contenders}
    later: dict[tuple[str, bool], list[float]] = {x: [] for x in contenders}
    losses = {}
    # In turns: the machine isn't the same from minute to minute.
    for turn in rich.progress.track(
        contenders * arguments.rounds, "Training", console=console
    ):
        seconds, losses[turn] = _fit(*turn, arguments.epochs)
        first[turn].append(seconds[0])
        later[turn] += seconds[1:]
    command = shlex.join(["python", *sys.argv])
    table = Table(
        "fit of the digits network",
        f"Medians of {arguments.rounds} fits in turns, seconds. Made by "
        f"`{command}` on {machine.describe()['cpu']}, "
        f"{machine.count_cores()} cores.",
        ["optimizer", "jit_compile", "first epoch", "a later one", "loss"],
        [
            [
                turn[0],
                str(turn[1]),
                f"{statistics.median(first[turn]):.2f}",
                f"{statistics.median(later[turn]):.3f}",
                f"{losses[turn]:.5f}",
            ]
            for turn in contenders
        ],
    )
    terminal.show(table, console)
    console.print(table.to_markdown())


if __name__ == "__main__":
    main()
