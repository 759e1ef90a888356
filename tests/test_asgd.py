"""What only ASGD has: which batch a step is on."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from devices import assert_refused
from trajectory import RUNS


def stochastic_average_gradient(
    start: float, gradients, batches, learning_rate: float
) -> list[float]:
    """The algorithm of the paper: sums the gradients anew in every step."""
    p, last, values = start, {}, []
    for gradient, batch in zip(gradients, batches, strict=True):
        last[batch] = gradient
        p -= learning_rate * sum(last.values()) / len(last)
        values.append(p)
    return values


GRADIENTS = np.random.default_rng(0).normal(size=12)


@pytest.mark.parametrize("how", [*RUNS, "replicas"])
def test_the_batch_may_be_said_before_each_step(how, strategy):
    scope = strategy if how == "replicas" else tf.distribute.get_strategy()
    with scope.scope():
        variable = keras.Variable(1.0, dtype="float64")
        optimizer = tf_opt.ASGD(0.25, batch_num=4)
        optimizer.build([variable])

    def on_replica(gradient: tf.Tensor, index: tf.Tensor) -> None:
        optimizer.batch_index = index
        part = gradient / scope.num_replicas_in_sync
        optimizer.apply([part], [variable])

    step = RUNS.get(how, tf.function)(lambda *x: scope.run(on_replica, x))
    order = [2, 2, 0, 2, 0, 0, 3, 2, 2, 1, 0, 3]
    expected = stochastic_average_gradient(1.0, GRADIENTS, order, 0.25)
    for gradient, index, value in zip(GRADIENTS, order, expected, strict=True):
        step(tf.constant(gradient), tf.constant(index))
        for copy in scope.experimental_local_results(variable.value):
            assert copy.numpy() == pytest.approx(value, abs=1e-14)


def test_in_order_by_default_and_as_is_said(implementation, how):
    variable = keras.Variable(1.0, dtype="float64")
    optimizer = tf_opt.ASGD(0.25, batch_num=4, implementation=implementation)
    optimizer.build([variable])
    step = RUNS[how](lambda gradient: optimizer.apply([gradient], [variable]))
    batches = []
    for number, gradient in enumerate(GRADIENTS):
        if number == 5:  # After the first batch of an epoch.
            np.testing.assert_array_equal(optimizer.batch_order, [1, 2, 3, 0])
            optimizer.batch_order = [1, 3, 2, 0]
        if number == 9:  # For one step.
            optimizer.batch_index = 0
            np.testing.assert_array_equal(optimizer.batch_order, [0, 3, 2, 0])
        batches.append(int(optimizer.batch_index))
        step(tf.constant(gradient))
    assert batches == [0, 1, 2, 3, 0, 1, 3, 2, 0, 0, 3, 2]
    expected = stochastic_average_gradient(1.0, GRADIENTS, batches, 0.25)
    assert variable.numpy() == pytest.approx(expected[-1], abs=1e-14)
    optimizer.batch_index = 0
    optimizer.batch_order = [2, 1, 3, 0]  # Is about the next step, too.
    assert int(optimizer.batch_index) == 2


@pytest.mark.parametrize("index", [-1, 3, 2**40])
def test_a_traced_batch_that_is_none_is_refused(index, device):
    variable = keras.Variable(1.0)
    optimizer = tf_opt.ASGD(0.25, batch_num=3)
    with pytest.raises(ValueError, match="`batch_index` is known once"):
        optimizer.batch_index = 0
    optimizer.build([variable])

    @tf.function
    def step(index: tf.Tensor) -> None:
        optimizer.batch_index = index
        optimizer.apply([tf.constant(1.0)], [variable])

    message = rf"`batch_index` must be in \[0, 3\).*got {index}"
    index = tf.constant(index, tf.int64)
    assert_refused(lambda: step(index), device, message)
    assert variable.numpy() == 1.0


IN_RANGE = r"in \[0, 3\).*"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        *(("batch_index", x, IN_RANGE + str(x)) for x in (-1, 3, 2**40)),
        *(("batch_order", [0, 1, x], IN_RANGE) for x in (-1, 3, 2**40)),
        ("batch_order", [0, 1], "`batch_num`"),
        ("batch_index", 1.5, ""),
        ("batch_index", True, ""),
        ("batch_index", [0, 1], ""),
        ("batch_order", 1, ""),
    ],
)
def test_what_is_no_number_of_a_batch_is_named(name, value, message):
    variable = keras.Variable([1.0])
    optimizer = tf_opt.ASGD(0.1, batch_num=3)
    optimizer.build([variable])
    with pytest.raises(ValueError, match=f"`{name}` must be {message}"):
        setattr(optimizer, name, value)
    np.testing.assert_array_equal(optimizer.batch_order, [0, 1, 2])


@pytest.mark.filterwarnings("error")
def test_without_the_number_of_batches_it_says_that_it_is_sgd():
    with pytest.warns(UserWarning, match="`ASGD` without `batch_num` is SGD"):
        optimizer = tf_opt.ASGD(0.1)
    assert optimizer.batch_num == 1
    tf_opt.ASGD(0.1, batch_num=1)
    tf_opt.ASGD.from_config(optimizer.get_config())


@pytest.mark.parametrize("shuffled", [False, True])
def test_converges_as_documents_state_of_the_example(shuffled):
    for needed in ("matplotlib", "rich", "sklearn"):
        pytest.importorskip(needed)
    import asgd

    problem = asgd.load_problem()
    batches = problem.batches
    optimizer = tf_opt.ASGD(problem.learning_rate, batch_num=batches)
    x, y = (tf.constant(np.split(a, batches)) for a in (problem.x, problem.y))
    w = keras.Variable(np.zeros_like(problem.solution), dtype="float64")
    optimizer.build([w])

    @tf.function
    def epoch(order: tf.Tensor) -> None:
        for i in order:
            error = x[i] @ w - y[i]
            gradient = tf.transpose(x[i]) @ error / asgd.BATCH_SIZE
            if shuffled:
                optimizer.batch_index = i
            optimizer.apply([2 * (gradient + asgd.RIDGE * w)], [w])

    random = np.random.default_rng(0)
    distances = []
    for _ in range(260):
        order = np.arange(batches)
        epoch(tf.constant(random.permutation(order) if shuffled else order))
        distances.append(np.linalg.norm(w.numpy() - problem.solution))
    rate = asgd.measured_rate(distances)
    assert rate == pytest.approx(0.87, abs=0.005)
    # Gradients that are half an epoch old speed a slow direction up.
    assert rate <= problem.full_gradient_rate
    # Float64's 2e-16 times the condition number, 38, and some steps' worth of
    # rounding. Measured: 4e-15.
    assert distances[-1] < 1e-13
