"""Measures the memory of steps compiled by XLA."""

from __future__ import annotations

import pathlib
import resource
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
import tf_opt

import results
from measure import Measurement
from measure import Options
from results import Row

_OPTIMIZERS = {"Keras": keras.optimizers.Adam, "tf_opt": tf_opt.Adam}


def _compiled_step(
    optimizer: keras.optimizers.Optimizer, shapes: list[list[int]]
) -> Callable[[], None]:
    variables = [tf.Variable(tf.zeros(shape)) for shape in shapes]
    gradients = [tf.ones(shape) for shape in shapes]
    optimizer.build(variables)
    return tf.function(
        lambda: optimizer.apply(gradients, variables), jit_compile=True
    )


def _peak_of_step(name: str, steps: int) -> float:
    step = _compiled_step(_OPTIMIZERS[name](), [[16 << 20]] * 2)
    for _ in range(5):
        step()
    return _peak()


def _peak_of_fit(name: str, steps: int) -> float:
    layers = [keras.layers.Dense(4096, "relu") for _ in range(2)]
    model = keras.Sequential(
        [keras.Input((2048,)), *layers, keras.layers.Dense(1)]
    )
    model.compile(_OPTIMIZERS[name](), "mse", jit_compile=True)
    x = np.random.default_rng(0).normal(size=(64, 2048)).astype("float32")
    model.fit(x, x[:, :1], epochs=4, batch_size=32, verbose=0)
    return _peak()


def _growth(name: str, steps: int) -> float:
    optimizer = _OPTIMIZERS[name](use_ema=True)
    step = _compiled_step(optimizer, [[300, 100]] * 6)
    for _ in range(200):
        step()
    before = _now()
    for _ in range(steps):
        step()
    return _now() - before


def _peak() -> float:
    """Returns the largest memory that this process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _now() -> float:
    pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize() / 2**20


# The title and the function of each workload.
_MEASURES = {
    "step": ("peak: a step of two variables of 16 M elements", _peak_of_step),
    "fit": ("peak: fit of a network of 25 M parameters", _peak_of_fit),
    "growth": ("growth over 10,000 steps with averages", _growth),
}


def measure(variant: str, workload: str, options: Options) -> list[Row]:
    """Measures this process' memory."""
    title, function = _MEASURES[workload]
    value = function(variant, 1000 if options.quick else 10_000)
    return [results.row(title, "Adam", variant, Measurement([value]))]
