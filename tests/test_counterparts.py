"""Each optimizer beside Keras' own: variables and slots over 200 steps."""

from __future__ import annotations

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.optimizers import nadam as keras_nadam

from counterparts import COUNTERPARTS

pytestmark = pytest.mark.core

# A float32 has these exactly, also 1 - beta: Keras computes with them in the
# variable's type, and keeps the learning rate in float32.
EXACT = {
    "learning_rate": 2.0**-10,
    "beta_1": 0.875,
    "beta_2": 0.9375,
    "weight_decay": 2.0**-6,
}


def exact_cast(x, dtype):
    """`keras.ops.cast`, but a Python float becomes a float64 as it is."""
    return tf.constant(x, dtype) if isinstance(x, float) else tf.cast(x, dtype)


@pytest.mark.parametrize(
    ("implementation", "dtype", "tolerance"),
    [("custom_op", "float32", 3e-6), ("composed", "float64", 1e-12)],
)
@pytest.mark.parametrize("name", COUNTERPARTS)
def test_numbers_are_those_of_keras(
    name, implementation, dtype, tolerance, monkeypatch
):
    # Keras takes 0.96 to float64 through float32, 2e-8 off.
    monkeypatch.setattr(keras_nadam.ops, "cast", exact_cast)
    pair = COUNTERPARTS[name]
    known = inspect.signature(pair.keras.func).parameters
    exact = {key: value for key, value in EXACT.items() if key in known}
    generator = np.random.default_rng(3)
    start = generator.choice([-1.0, 1.0], 16) * generator.uniform(1, 2, 16)
    optimizers = [
        pair.ours(**exact, implementation=implementation),
        pair.keras(**exact),
    ]
    variables = [keras.Variable(start, dtype=dtype) for _ in optimizers]
    for optimizer, variable in zip(optimizers, variables, strict=True):
        optimizer.build([variable])
    for step in range(200):
        # Towards 0: no sum cancels, so that each element has its digits.
        magnitudes = 10 ** generator.uniform(-1, 1, 16) * 0.5 ** (step % 9)
        gradient = tf.constant(-np.sign(start) * magnitudes, dtype)
        for optimizer, variable in zip(optimizers, variables, strict=True):
            optimizer.apply([gradient], [variable])
        ours, theirs = (optimizer.variables[2:] for optimizer in optimizers)
        assert len(ours) == len(theirs)
        np.testing.assert_allclose(*variables, rtol=tolerance, atol=0)
        for a, b in zip(ours, theirs, strict=True):
            # A product of 200 numbers has 200 rounding errors.
            factor = 200 if a.shape == () else 1
            np.testing.assert_allclose(a, b, rtol=factor * tolerance, atol=0)
