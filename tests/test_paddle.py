"""The numbers are Paddle's, as recorded by golden/make_paddle_golden.py."""

from __future__ import annotations

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

import paddle_cases as cases

GOLDEN = pathlib.Path(__file__).parent / "golden" / "paddle.npz"


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("name", cases.CASES)
def test_equals_recorded_paddle(name, dtype, implementation):
    case = cases.CASES[name]
    variable = keras.Variable(cases.initial_value(dtype), dtype=dtype)
    optimizer = getattr(tf_opt, case.name)(
        cases.LEARNING_RATE,
        implementation=implementation,
        decoupled_weight_decay=False,
        **case.arguments,
    )
    with np.load(GOLDEN) as golden:
        expected = golden[f"{name}/{dtype}"]
    assert len(expected) == cases.STEPS
    for step, value in enumerate(expected, start=1):
        gradient = tf.constant(cases.gradient(step, dtype))
        optimizer.apply([gradient], [variable])
        np.testing.assert_allclose(
            variable.numpy(),
            value,
            rtol=2e-6 if dtype == "float32" else case.tolerance,
            err_msg=f"step {step}",
        )
