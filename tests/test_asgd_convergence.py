"""ASGD converges, if told of the batches: the ridge regression of an example.

The 442 patients of scikit-learn's diabetes data in 26 fixed batches of 17: as
all are of one size, the mean of the batches' losses is the loss of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

for needed in ("matplotlib", "rich", "sklearn"):
    pytest.importorskip(needed)

import asgd

EPOCHS = 300


@pytest.fixture(scope="module")
def problem() -> Iterator[asgd.Problem]:
    with pytest.MonkeyPatch.context() as patch:
        # Steps are farther from the largest stable one than the example's.
        patch.setattr(asgd, "RIDGE", 0.1)
        yield asgd.load_problem()


def distances(
    problem: asgd.Problem, *, shuffled: bool, told: bool = False
) -> np.ndarray:
    """The distance from the solution after each epoch."""
    batches = problem.batches
    optimizer = tf_opt.ASGD(problem.learning_rate, batch_num=batches)
    x, y = (tf.constant(np.split(a, batches)) for a in (problem.x, problem.y))
    w = keras.Variable(np.zeros_like(problem.solution), dtype="float64")
    optimizer.build([w])

    def step(i: tf.Tensor) -> None:
        error = x[i] @ w - y[i]
        gradient = tf.transpose(x[i]) @ error / asgd.BATCH_SIZE
        if told:
            optimizer.batch_index = i
        optimizer.apply([2 * (gradient + asgd.RIDGE * w)], [w])

    @tf.function
    def epoch(order: tf.Tensor) -> None:
        for i in order:
            step(i)

    generator = np.random.default_rng(0)
    result = []
    for _ in range(EPOCHS):
        order = np.arange(batches)
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
    # factor of 0.898 per epoch. Measured: -0.0497 in order, -0.0500 shuffled.
    # (Gradients that are 12.5 steps old speed a slow direction up by 5%.)
    assert rate <= np.log10(problem.full_gradient_rate)
    # A line: within a factor of 1.4 while the distance falls by 1e10. Measured:
    # 0.07 in order, 0.005 shuffled.
    np.testing.assert_allclose(logs, offset + rate * epochs, rtol=0, atol=0.15)
    # Float64's 2e-16 times the condition number, 38, and some steps' worth of
    # rounding. Measured: 4e-15.
    assert distance[-1] < 1e-13


def test_shuffled_batches_that_asgd_is_not_told_of_mislead_it(problem):
    distance = distances(problem, shuffled=True)
    # At the solution a batch's gradient is still about 0.5 long, so that every
    # step goes about 0.02 away. Measured: never nearer than 0.017.
    assert distance[EPOCHS // 2 :].min() > 1e-3
