"""A complex variable is two real ones, with PyTorch's numbers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from allpairspy import AllPairs

from registry import OPTIMIZERS
from torch_trajectory import TORCH_MODES
from torch_trajectory import torch_steps
from trajectory import RUNS

# A float32 has it exactly, and so has Keras' variable that holds it.
LEARNING_RATE = 2.0**-5
SHAPE = (4, 3)
STEPS = 12


def _random(seed: int) -> np.ndarray:
    real, imaginary = np.random.default_rng(seed).normal(size=(2, *SHAPE))
    return real + 1j * imaginary


START = _random(0)
# Shrinking for four steps, so that AMSGrad differs.
GRADIENTS = [3 * 0.5 ** (t % 5) * _random(t) for t in range(1, STEPS + 1)]


def _view(array: np.ndarray) -> np.ndarray:
    """Real and imaginary parts beside each other, as PyTorch's view."""
    return np.stack([array.real, array.imag], axis=-1)


@pytest.mark.parametrize(
    ("name", "mode", "dtype", "tolerance"),
    [
        (*mode, *[("complex64", 2e-6), ("complex128", 1e-12)][i % 2])
        for i, mode in enumerate(TORCH_MODES)
    ],
)
def test_numbers_are_those_of_torch(
    name: str, mode: str, dtype: str, tolerance: float
) -> None:
    pytest.importorskip("torch")
    under_test = OPTIMIZERS[name]
    arguments = under_test.modes[mode]
    start = START.astype(dtype)
    gradients = [gradient.astype(dtype) for gradient in GRADIENTS]
    variable = tf.Variable(start)
    ours = under_test.make(LEARNING_RATE, **arguments)
    ours.build([variable])
    theirs = torch_steps(name, arguments, start, gradients, LEARNING_RATE)
    for gradient, state in zip(gradients, theirs, strict=True):
        ours.apply([tf.constant(gradient)], [variable])
        np.testing.assert_allclose(
            _view(variable.numpy()),
            _view(state["variable"]),
            rtol=tolerance,
            atol=tolerance,
        )


@pytest.mark.parametrize(
    ("name", "how", "features"),
    AllPairs(
        [
            ["Adam", "ASGD"],
            list(RUNS),
            [{"clipnorm": 0.5}, {"clipvalue": 0.3}, {"global_clipnorm": 0.5}],
        ]
    ),
)
def test_a_complex_number_is_two_reals(
    name: str, how: str, features: dict[str, float]
) -> None:
    under_test = OPTIMIZERS[name]
    arguments = under_test.modes[under_test.thorough_mode]
    found = []
    for start, gradients in (
        (START, GRADIENTS),
        (_view(START), map(_view, GRADIENTS)),
    ):
        variable = tf.Variable(start)
        optimizer = under_test.make(LEARNING_RATE, **arguments, **features)
        optimizer.build([variable])
        step = RUNS[how](
            lambda g, optimizer=optimizer, v=variable: optimizer.apply([g], [v])
        )
        for gradient in gradients:
            step(tf.constant(gradient))
        found.append(variable.numpy())
    np.testing.assert_allclose(_view(found[0]), found[1], rtol=1e-12)


def test_replicas_sum_complex_gradients(
    strategy: tf.distribute.Strategy,
) -> None:
    gradient = tf.constant(GRADIENTS[0])
    with strategy.scope():
        variable = tf.Variable(START)
        optimizer = tf_opt.Adam(LEARNING_RATE)
        optimizer.build([variable])

    @tf.function
    def step() -> None:
        replica = tf.distribute.get_replica_context()
        part = tf.cast(replica.replica_id_in_sync_group + 1, gradient.dtype)
        optimizer.apply([part * gradient], [variable])

    strategy.run(step)
    alone = tf.Variable(START)
    tf_opt.Adam(LEARNING_RATE).apply([3 * gradient], [alone])
    for copy in strategy.experimental_local_results(variable):
        np.testing.assert_allclose(copy, alone, rtol=1e-12)
