"""What only ASGD has: which batch a step is on, and the size of its state."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tf_opt.python.optimizers import state_size

from devices import refusal

implementations = pytest.mark.parametrize(
    "implementation", ["custom_op", "composed"]
)


def stochastic_average_gradient(
    start: float, gradients, batches, batch_num: int, learning_rate: float
) -> list[float]:
    """The algorithm of the paper: sums the gradients anew in every step."""
    p, last, values = start, {}, []
    for gradient, batch in zip(gradients, batches, strict=True):
        last[batch] = gradient
        p -= learning_rate * sum(last.values()) / len(last)
        values.append(p)
    return values


ORDERS = {
    "cyclic": [0, 1, 2, 3] * 3,
    "shuffled": [2, 0, 3, 1, 1, 3, 0, 2, 0, 2, 1, 3],
    "with replacement": [2, 2, 0, 2, 0, 0, 3, 2, 2, 1, 0, 3],
}
GRADIENTS = np.random.default_rng(0).normal(size=12)


@pytest.mark.core
@pytest.mark.parametrize("how", ["eager", "tf.function", "jit_compile"])
@pytest.mark.parametrize("order", ORDERS)
def test_the_batch_may_be_said_before_each_step(order, how):
    variable = keras.Variable(1.0, dtype="float64")
    optimizer = tf_opt.ASGD(0.25, batch_num=4)
    optimizer.build([variable])
    traces = []

    def step(gradient: tf.Tensor, index: tf.Tensor) -> None:
        traces.append(1)
        optimizer.batch_index = index
        optimizer.apply([gradient], [variable])

    if how != "eager":
        step = tf.function(step, jit_compile=how == "jit_compile")
    expected = stochastic_average_gradient(
        1.0, GRADIENTS, ORDERS[order], 4, 0.25
    )
    for gradient, index, value in zip(
        GRADIENTS, ORDERS[order], expected, strict=True
    ):
        step(tf.constant(gradient), tf.constant(index))
        assert variable.numpy() == pytest.approx(value, abs=1e-14)
    assert how == "eager" or len(traces) == 1


@implementations
def test_in_order_by_default_and_in_the_order_that_is_said(implementation):
    variable = keras.Variable(1.0, dtype="float64")
    optimizer = tf_opt.ASGD(0.25, batch_num=4, implementation=implementation)
    optimizer.build([variable])
    batches = []
    for step, gradient in enumerate(GRADIENTS):
        if step == 6:  # In the middle of an epoch, too.
            np.testing.assert_array_equal(optimizer.batch_order, [2, 3, 0, 1])
            optimizer.batch_order = [1, 3, 2, 0]
        batches.append(int(optimizer.batch_index))
        optimizer.apply([tf.constant(gradient)], [variable])
    assert batches == [0, 1, 2, 3, 0, 1, 1, 3, 2, 0, 1, 3]
    expected = stochastic_average_gradient(1.0, GRADIENTS, batches, 4, 0.25)
    assert variable.numpy() == pytest.approx(expected[-1], abs=1e-14)


@pytest.mark.parametrize("index", [-1, 3, 2**40])
def test_a_batch_that_is_none_is_refused(index, device, capfd):
    variable = keras.Variable(1.0)
    optimizer = tf_opt.ASGD(0.25, batch_num=3)
    with pytest.raises(ValueError, match="`batch_index` is known once"):
        optimizer.batch_index = 0
    optimizer.build([variable])
    with pytest.raises(
        ValueError, match=rf"`batch_index` must be in \[0, 3\).*{index}"
    ):
        optimizer.batch_index = index
    with pytest.raises(ValueError, match=r"`batch_order` must be in \[0, 3\)"):
        optimizer.batch_order = [0, 1, index]
    with pytest.raises(ValueError, match="`batch_order` must have"):
        optimizer.batch_order = [0, 1]

    @tf.function
    def step(index: tf.Tensor) -> None:
        optimizer.batch_index = index
        optimizer.apply([tf.constant(1.0)], [variable])

    message = rf"`batch_index` must be in \[0, 3\).*got {index}"
    with refusal(device, message, capfd, is_of_a_number=True):
        step(tf.constant(index, tf.int64))
    assert variable.numpy() == 1.0


def test_only_one_row_of_the_table_is_written():
    variable = keras.Variable([1.0, 2.0])
    optimizer = tf_opt.ASGD(0.25, batch_num=3)
    optimizer.build([variable])
    table = optimizer.variables[3]
    marks = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    table.assign(marks)
    optimizer.batch_index = 1
    optimizer.apply([tf.constant([7.0, 8.0])], [variable])
    marks[1] = [7.0, 8.0]
    np.testing.assert_array_equal(table.numpy(), marks)


def test_a_large_state_is_said_and_too_large_a_one_refused(monkeypatch):
    variable = keras.Variable(tf.zeros((1000, 10), tf.bfloat16))
    monkeypatch.setattr(state_size, "LARGE", 100_000)
    with pytest.warns(UserWarning, match=r"batch_num=9\) keeps 10 times the"):
        tf_opt.ASGD(batch_num=9).build([variable])
    monkeypatch.setattr(state_size, "machine_memory", lambda: 399_999)
    with pytest.raises(ValueError, match="more than this machine's.*larger"):
        tf_opt.ASGD(batch_num=9).build([variable])


def test_a_million_batches_are_refused_before_anything_is_allocated():
    optimizer = tf_opt.ASGD(batch_num=10**6)
    with pytest.raises(ValueError, match="1000001 times the parameters"):
        optimizer.build([keras.Variable(tf.zeros(100_000))])
    assert not optimizer.built


def fit_line(batches, **arguments) -> float:
    """The slope that a line through the data is fitted with."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.layers.Input((1,)), keras.layers.Dense(1, use_bias=False)]
    )
    model.compile(tf_opt.ASGD(0.2, batch_num=len(batches)), "mse", **arguments)
    model.fit(
        batches.dataset,
        epochs=60,
        callbacks=[batches],
        shuffle=False,
        verbose=0,
    )
    return float(model.get_weights()[0].item())


@pytest.mark.core
@pytest.mark.parametrize(
    "arguments",
    [{}, {"steps_per_execution": 3}, {"jit_compile": True}],
    ids=str,
)
def test_fit_on_shuffled_batches_finds_the_least_squares(arguments):
    generator = np.random.default_rng(1)
    x = generator.normal(size=(50, 1)).astype("float32")
    y = 3 * x + generator.normal(size=(50, 1)).astype("float32")
    batches = tf_opt.callbacks.ShuffledBatches(x, y, batch_size=10, seed=2)
    assert len(batches) == 5
    exact = float((x * y).sum() / (x * x).sum())
    # The mean of the last five gradients of *other* batches would not do.
    assert fit_line(batches, **arguments) == pytest.approx(exact, abs=1e-5)


def test_shuffled_batches_visits_each_batch_once_an_epoch_in_new_orders():
    x = np.arange(11)
    batches = tf_opt.callbacks.ShuffledBatches(
        {"a": x, "b": 2 * x}, x, batch_size=4, seed=3
    )
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile(tf_opt.ASGD(batch_num=3))
    batches.set_model(model)
    orders = []
    for epoch in range(8):
        batches.on_epoch_begin(epoch)
        seen = list(batches.dataset.as_numpy_iterator())
        orders.append([int(x["a"][0]) // 4 for x, _ in seen])
        np.testing.assert_array_equal(model.optimizer.batch_order, orders[-1])
        for inputs, targets in seen:
            np.testing.assert_array_equal(inputs["b"], 2 * inputs["a"])
            np.testing.assert_array_equal(targets, inputs["a"])
        everything = np.concatenate([targets for _, targets in seen])
        np.testing.assert_array_equal(np.sort(everything), x)
    assert len(set(map(tuple, orders))) > 1


def test_shuffled_batches_says_what_does_not_fit():
    x = np.zeros((8, 1))
    batches = tf_opt.callbacks.ShuffledBatches(x, x, batch_size=2)
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile(tf_opt.ASGD(batch_num=5), "mse")
    with pytest.raises(ValueError, match="`batch_num` must be .* 4.*=5"):
        model.fit(batches.dataset, callbacks=[batches], verbose=0)
    model.compile(tf_opt.Adam(), "mse")
    with pytest.raises(ValueError, match="compiled with tf_opt.ASGD"):
        model.fit(batches.dataset, callbacks=[batches], verbose=0)
    model.compile(tf_opt.ASGD(batch_num=4), "mse")
    with pytest.raises(ValueError, match="this object's `dataset`.*8 steps"):
        model.fit(x, x, batch_size=1, callbacks=[batches], verbose=0)
    with pytest.raises(ValueError, match=r"same number of samples.*\[7, 8\]"):
        tf_opt.callbacks.ShuffledBatches(x, x[1:])
