"""What only NAdam has: the product of momenta, and Keras' numbers."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from keras.src.optimizers import nadam as keras_nadam

from low_precision_cases import implementations


def product_after(steps: int, optimizer: tf_opt.NAdam) -> float:
    """The product of the momenta, from its definition."""
    exponents = np.arange(1, steps + 1) * optimizer.momentum_decay
    return float(np.prod(optimizer.beta_1 * (1 - 0.5 * 0.96**exponents)))


def exact_cast(x, dtype):
    """`keras.ops.cast`, but a Python float becomes a float64 as it is."""
    return tf.constant(x, dtype) if isinstance(x, float) else tf.cast(x, dtype)


@pytest.mark.core
@pytest.mark.parametrize(
    ("implementation", "dtype", "tolerance"),
    [("custom_op", "float32", 2e-6), ("composed", "float64", 1e-12)],
)
def test_equals_keras_nadam(implementation, dtype, tolerance, monkeypatch):
    # Keras takes 0.96 to float64 through float32, 2e-8 off.
    monkeypatch.setattr(keras_nadam.ops, "cast", exact_cast)
    # Numbers that a float32 has exactly, also 1 - beta: Keras computes with
    # them in the variable's type, and keeps the learning rate in float32.
    arguments = {"learning_rate": 2.0**-10, "beta_1": 0.875, "beta_2": 0.9375}
    generator = np.random.default_rng(3)
    start = generator.choice([-1.0, 1.0], 16) * generator.uniform(1, 2, 16)
    pairs = []
    for optimizer in (
        tf_opt.NAdam(
            **arguments,
            epsilon=1e-7,
            momentum_decay=1.0,
            implementation=implementation,
        ),
        keras.optimizers.Nadam(**arguments, epsilon=1e-7),
    ):
        variable = keras.Variable(start, dtype=dtype)
        optimizer.build([variable])
        pairs.append((optimizer, variable))
    for step in range(200):
        # Towards 0: no sum cancels, so that each element has its digits.
        magnitudes = 10 ** generator.uniform(-1, 1, 16) * 0.5 ** (step % 9)
        gradient = tf.constant(np.sign(start) * magnitudes, dtype)
        for optimizer, variable in pairs:
            optimizer.apply([gradient], [variable])
        ours, theirs = (
            [variable.numpy(), *(v.numpy() for v in optimizer.variables[2:])]
            for optimizer, variable in pairs
        )
        assert len(ours) == 4
        for a, b in zip(ours[:3], theirs[:3], strict=True):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=0)
        # A product of 200 numbers, each rounded; it is next to 0 then.
        np.testing.assert_allclose(ours[3], theirs[3], rtol=200 * tolerance)


@implementations
def test_the_product_advances_once_a_step_whatever_the_variables(
    implementation,
):
    variables = [
        keras.Variable([1.0]),
        keras.Variable([1.0], dtype="bfloat16"),
        keras.Variable([1.0], dtype="float64"),
    ]
    optimizer = tf_opt.NAdam(0.1, implementation=implementation)
    optimizer.build(variables)
    product = optimizer.variables[-1]
    assert product.dtype == "float64"
    ones = [tf.ones(1, v.dtype) for v in variables]
    steps = [ones, [None, None, ones[2]], [ones[0], None, None], ones]
    for count, gradients in enumerate(steps, start=1):
        given = [
            (g, v)
            for g, v in zip(gradients, variables, strict=True)
            if g is not None
        ]
        optimizer.apply(*zip(*given, strict=True))
        assert product.numpy() == pytest.approx(
            product_after(count, optimizer), rel=1e-14
        )
