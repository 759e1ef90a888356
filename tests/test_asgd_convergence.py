"""ASGD converges, if told of the batches: ridge regression on real data.

The 442 patients of scikit-learn's diabetes data in 26 fixed batches of 17: as
all are of one size, the mean of the batches' losses is the loss of the whole.
"""

from __future__ import annotations

from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from sklearn.datasets import load_diabetes

BATCH_SIZE = 17
BATCHES = 26
RIDGE = 0.1
EPOCHS = 300


class Problem(NamedTuple):
    """Batches, the exact solution and the curvature of the loss."""

    x: np.ndarray
    y: np.ndarray
    solution: np.ndarray
    learning_rate: float
    least_curvature: float


def standardized(values: np.ndarray) -> np.ndarray:
    return (values - values.mean(axis=0)) / values.std(axis=0)


@pytest.fixture(scope="module")
def problem() -> Problem:
    x, y = map(standardized, load_diabetes(return_X_y=True))
    ridge = RIDGE * np.eye(x.shape[1])
    hessian = x.T @ x / len(x) + ridge
    batches = x.reshape(BATCHES, BATCH_SIZE, -1)
    batch_hessians = batches.mT @ batches / BATCH_SIZE + ridge
    # Proven is 1 / (16 L), L the largest curvature of a batch, for batches
    # drawn at random. Visited once an epoch, gradients are up to 25 steps old,
    # and the delay lets steps swing up that are above about
    # pi^2 / (2 * 26 * the largest curvature of the whole): in NumPy, above
    # 0.045. These, 0.038, are below.
    largest_curvature = np.linalg.eigvalsh(batch_hessians).max()
    return Problem(
        x=batches,
        y=y.reshape(BATCHES, BATCH_SIZE),
        solution=np.linalg.solve(hessian, x.T @ y / len(x)),
        learning_rate=1 / (4 * largest_curvature),
        least_curvature=np.linalg.eigvalsh(hessian).min(),
    )


def distances(
    problem: Problem, *, shuffled: bool, told: bool = False
) -> np.ndarray:
    """The distance from the solution after each epoch."""
    optimizer = tf_opt.ASGD(problem.learning_rate, batch_num=BATCHES)
    x, y = tf.constant(problem.x), tf.constant(problem.y)
    w = keras.Variable(np.zeros(x.shape[-1]), dtype="float64")
    optimizer.build([w])

    def step(i: tf.Tensor) -> None:
        error = tf.linalg.matvec(x[i], w) - y[i]
        gradient = tf.linalg.matvec(x[i], error, transpose_a=True)
        if told:
            optimizer.batch_index = i
        optimizer.apply([gradient / BATCH_SIZE + RIDGE * w], [w])

    @tf.function
    def epoch(order: tf.Tensor) -> None:
        for i in order:
            step(i)

    generator = np.random.default_rng(0)
    result = []
    for _ in range(EPOCHS):
        order = np.arange(BATCHES)
        epoch(tf.constant(generator.permutation(order) if shuffled else order))
        result.append(np.linalg.norm(w.numpy() - problem.solution))
    return np.array(result)


@pytest.mark.parametrize("shuffled", [False, True])
def test_asgd_converges_linearly(problem, shuffled):
    distance = distances(problem, shuffled=shuffled, told=shuffled)
    # From epoch 50 on only the slowest direction is left; until epoch 250 the
    # distance, about 1e-12 by then, is well above rounding errors.
    epochs = np.arange(50, 250)
    logs = np.log10(distance[epochs])
    rate, offset = np.polyfit(epochs, logs, 1)
    # What as many steps with the gradient of all data would do: -0.0468, a
    # factor of 0.898 per epoch. Measured: -0.0497 in order, -0.0501 shuffled.
    # (Gradients that are 12.5 steps old speed a slow direction up by 5%.)
    full_gradient = BATCHES * np.log10(
        1 - problem.learning_rate * problem.least_curvature
    )
    assert rate <= full_gradient
    # A line: within a factor of 1.4 while the distance falls by 1e10. Measured:
    # 0.07 in order, 0.003 shuffled.
    np.testing.assert_allclose(logs, offset + rate * epochs, rtol=0, atol=0.15)
    # Float64's 2e-16 times the condition number, 38, and some steps' worth of
    # rounding. Measured: 4e-15.
    assert distance[-1] < 1e-13


def test_shuffled_batches_that_asgd_is_not_told_of_mislead_it(problem):
    distance = distances(problem, shuffled=True)
    # At the solution a batch's gradient is still about 0.5 long, so that every
    # step goes about 0.02 away. Measured: never nearer than 0.007.
    assert distance[EPOCHS // 2 :].min() > 1e-3
