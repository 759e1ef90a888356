"""Measures Keras' fit of examples/digits.py, compiled by XLA and not.

The first epoch traces and compiles, the later ones don't.
"""

from __future__ import annotations

import itertools
import pathlib
import sys
import time

sys.path.append(str(pathlib.Path(__file__).parents[1] / "examples"))

import digits
import keras

from case import Options
from results import Row

_EPOCHS = 8
_NAMES = {"keras.optimizers.AdamW": "Keras", "tf_opt.AdamW": "tf_opt"}


class _EpochTimes(keras.callbacks.Callback):
    """Records how many milliseconds each epoch takes."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Starts the clock."""
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Stops the clock."""
        self.times.append(1e3 * (time.perf_counter() - self._start))


def fit(optimizer: str, jit_compile: bool, epochs: int) -> list[float]:
    """Returns the milliseconds of each epoch."""
    model = digits.make_model()
    model.compile(
        optimizer=digits.make_optimizers()[optimizer],
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=jit_compile,
    )
    times = _EpochTimes()
    keras.utils.set_random_seed(digits.SEED)
    model.fit(
        *digits.load_data()[0],
        batch_size=digits.BATCH_SIZE,
        epochs=epochs,
        verbose=0,
        callbacks=[times],
    )
    keras.backend.clear_session()
    return times.times


def measure(variant: str, workload: str, options: Options) -> list[Row]:
    """Measures whole fits."""
    epochs = 2 if options.quick else _EPOCHS
    contenders = list(itertools.product(_NAMES, (True, False)))
    first: dict[tuple[str, bool], list[float]] = {x: [] for x in contenders}
    later: dict[tuple[str, bool], list[float]] = {x: [] for x in contenders}
    turns = contenders * options.rounds
    # In turns: the machine changes from minute to minute.
    for i, turn in enumerate(turns):
        options.on_progress("training", i / len(turns))
        times = fit(*turn, epochs)
        first[turn].append(times[0])
        later[turn] += times[1:]
    return [
        Row.of(
            workload,
            epoch,
            f"{_NAMES[name]}, {'XLA' if jit_compile else 'tf.function'}",
            samples=samples[name, jit_compile],
        )
        for epoch, samples in (("first epoch", first), ("later epoch", later))
        for name, jit_compile in contenders
    ]
