"""Measures epochs of examples/digits.py in Keras' fit, compiled by XLA and not.

The first epoch traces and compiles, the later ones don't.
"""

from __future__ import annotations

import digits
import keras

import measure as turns
import results
from measure import Contender
from measure import Options
from results import Row

_PACKAGES = {"Keras": "keras.optimizers", "tf_opt": "tf_opt"}


def contender(
    optimizer: keras.optimizers.Optimizer, jit_compile: bool
) -> Contender:
    """Makes a contender whose step is an epoch."""
    model = digits.make_model()
    model.compile(
        optimizer=optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=jit_compile,
    )
    x, y = digits.load_data()[0]
    return Contender(
        lambda: model.fit(x, y, batch_size=digits.BATCH_SIZE, verbose=0),
        lambda: [float(abs(w).sum()) for w in model.get_weights()],
    )


def measure(variant: str, workload: str, options: Options) -> list[Row]:
    """Measures epochs with Keras' optimizer and with tf_opt's."""
    contenders = {
        f"{name}, {'XLA' if jit_compile else 'tf.function'}": contender(
            digits.make_optimizers()[f"{package}.{variant}"], jit_compile
        )
        for name, package in _PACKAGES.items()
        for jit_compile in (True, False)
    }
    measured = turns.measure(contenders, options.rounds, seconds=60)
    return results.rows(workload, variant, measured)
