"""Measures the memory of steps compiled by XLA, each in a process of its own.

    python benchmarks/compiled_memory.py

The peak of a step and of a `fit`, Keras' Adam beside tf_opt's, and by how much
10,000 steps grow.
"""

from __future__ import annotations

import json
import os
import pathlib
import resource
import sys
from collections.abc import Callable

# Before the imports that import TensorFlow.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
import rich.console
import tensorflow as tf
import tf_opt

import terminal
from table import Table

_OPTIMIZERS = {"Keras": keras.optimizers.Adam, "tf_opt": tf_opt.Adam}
_STEPS = 10_000


def _compiled_step(
    optimizer: keras.optimizers.Optimizer, shapes: list[list[int]]
) -> Callable[[], None]:
    variables = [tf.Variable(tf.zeros(shape)) for shape in shapes]
    gradients = [tf.ones(shape) for shape in shapes]
    optimizer.build(variables)
    return tf.function(
        lambda: optimizer.apply(gradients, variables), jit_compile=True
    )


def _peak_of_a_step(name: str) -> float:
    step = _compiled_step(_OPTIMIZERS[name](), [[16 << 20]] * 2)
    for _ in range(5):
        step()
    return _peak()


def _peak_of_fit(name: str) -> float:
    layers = [keras.layers.Dense(4096, "relu") for _ in range(2)]
    model = keras.Sequential(
        [keras.Input((2048,)), *layers, keras.layers.Dense(1)]
    )
    model.compile(_OPTIMIZERS[name](), "mse", jit_compile=True)
    x = np.random.default_rng(0).normal(size=(64, 2048)).astype("float32")
    model.fit(x, x[:, :1], epochs=4, batch_size=32, verbose=0)
    return _peak()


def _growth(name: str) -> float:
    optimizer = _OPTIMIZERS[name](use_ema=True)
    step = _compiled_step(optimizer, [[300, 100]] * 6)
    for _ in range(200):
        step()
    before = _now()
    for _ in range(_STEPS):
        step()
    return _now() - before


def _peak() -> float:
    """The most that this process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _now() -> float:
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


_MEASURES = {
    "peak: a step of two variables of 16 M elements": _peak_of_a_step,
    "peak: fit of a network of 25 M parameters": _peak_of_fit,
    f"growth over {_STEPS:,} steps with averages": _growth,
}


def main() -> None:
    """Runs all measures, or the one that the command line names."""
    if len(sys.argv) == 3:
        measure, name = sys.argv[1:]
        print(json.dumps({"MiB": _MEASURES[measure](name)}), flush=True)
        return
    console = rich.console.Console()
    cases = [(measure, name) for measure in _MEASURES for name in _OPTIMIZERS]
    results = terminal.run(
        [
            terminal.Process(
                f"{measure}, {name}", [sys.executable, __file__, measure, name]
            )
            for measure, name in cases
        ],
        console,
    )
    found = {
        case: result["MiB"] for case, result in zip(cases, results, strict=True)
    }
    terminal.show(
        Table(
            "Memory of compiled steps",
            "MiB of the process.",
            ["", *_OPTIMIZERS],
            [
                [measure, *(f"{found[measure, x]:,.1f}" for x in _OPTIMIZERS)]
                for measure in _MEASURES
            ],
        ),
        console,
    )


if __name__ == "__main__":
    main()
