"""What only NAdam has: the product of momenta."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt


def product_after(steps: int, optimizer: tf_opt.NAdam) -> float:
    """The product of the momenta, from its definition."""
    exponents = np.arange(1, steps + 1) * optimizer.momentum_decay
    return float(np.prod(optimizer.beta_1 * (1 - 0.5 * 0.96**exponents)))


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
