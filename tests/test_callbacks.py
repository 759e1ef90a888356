"""The callbacks for `fit`: the order of batches, the average for evaluation."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from registry import slow
from small_model import FIT, X, Y, assert_close, assert_same, compiled, state


@pytest.mark.core
@pytest.mark.parametrize(
    "arguments", [{}, {"steps_per_execution": 3, "jit_compile": True}], ids=str
)
def test_fit_on_shuffled_batches_finds_the_least_squares(arguments):
    generator = np.random.default_rng(1)
    x = generator.normal(size=(50, 1)).astype("float32")
    y = 3 * x + generator.normal(size=(50, 1)).astype("float32")
    batches = tf_opt.callbacks.ShuffledBatches(x, y, batch_size=10, seed=2)
    assert len(batches) == 5
    exact = float((x * y).sum() / (x * x).sum())
    line = keras.layers.Dense(1, use_bias=False)
    model = keras.Sequential([keras.layers.Input((1,)), line])
    model.compile(tf_opt.ASGD(0.1, batch_num=5), "mse", **arguments)
    fits = {"epochs": 20, "shuffle": False, "verbose": 0}
    model.fit(batches.dataset, callbacks=[batches], **fits)
    # The mean of the last five gradients of *other* batches would not do.
    assert model.get_weights()[0] == pytest.approx(exact, abs=1e-5)


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


ACCUMULATING = tf_opt.ASGD(batch_num=4, gradient_accumulation_steps=2)


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (tf_opt.ASGD(batch_num=5), "`batch_num` must be .* 4.*=5"),
        (tf_opt.Adam(), "compiled with tf_opt.ASGD"),
        (tf_opt.ASGD(batch_num=4), "this object's `dataset`.* 32 steps"),
        (ACCUMULATING, "`gradient_accumulation_steps`.*=2"),
    ],
)
def test_shuffled_batches_says_what_does_not_fit(optimizer, message):
    batches = tf_opt.callbacks.ShuffledBatches(X, Y, batch_size=8)
    data = {"x": X, "y": Y, "batch_size": 1}
    if "dataset" not in message:
        data = {"x": batches.dataset}
    with pytest.raises(ValueError, match=message):
        compiled(optimizer).fit(**data, callbacks=[batches], verbose=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": X, "sample_weight": X[:, 0]}, "`sample_weight` .* y=None"),
        ({"x": X, "y": Y[1:]}, r"same number of samples.*\[31, 32\]"),
        ({"x": X[:0]}, r"at least one. Received: \[0\]"),
        ({"x": 1.0}, "first dimension counts the samples"),
        ({"x": X, "batch_size": 0}, "`batch_size`.*batch_size=0"),
        ({"x": X, "batch_size": None}, "`batch_size`.*batch_size=None"),
    ],
)
def test_shuffled_batches_names_a_wrong_argument(arguments, message):
    with pytest.raises(ValueError, match=message):
        tf_opt.callbacks.ShuffledBatches(**arguments)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ((X,), X),
        (((X, Y),), ((X, Y),)),  # Two inputs and no targets.
        ((X, Y), (X, Y)),
        ((X, Y, Y), (X, Y, Y)),
    ],
)
def test_shuffled_batches_are_what_fit_makes_of_the_data(data, expected):
    batches = tf_opt.callbacks.ShuffledBatches(*data)
    tf.nest.assert_same_structure(batches.dataset.element_spec, expected)


def make_model(run_eagerly: bool = True, **arguments) -> keras.Model:
    optimizer = tf_opt.AveragedSGD(0.1, t0=3, **arguments)
    return compiled(optimizer, run_eagerly=run_eagerly)


def fit(model: keras.Model, *callbacks, **arguments) -> None:
    model.fit(X, Y, callbacks=list(callbacks), **FIT, **arguments)


class Spy(keras.callbacks.Callback):
    """Keeps the weights that evaluation and what comes after an epoch see."""

    def __init__(self) -> None:
        super().__init__()
        self.at_end, self.in_test = [], []

    def on_epoch_end(self, epoch, logs=None) -> None:
        self.at_end.append(self.model.get_weights())

    def on_test_begin(self, logs=None) -> None:
        self.in_test.append(self.model.get_weights())


@pytest.mark.core
@pytest.mark.parametrize("use_ema", [False, True])
def test_the_callback_evaluates_with_the_average(use_ema):
    # Keras' moving average is another one.
    plain, model = (make_model(use_ema, use_ema=use_ema) for _ in range(2))
    before, spy = Spy(), Spy()
    plain.optimizer.finalize_variable_values = lambda _: None
    fit(plain, epochs=3)
    swap = tf_opt.callbacks.SwapAveragedWeights(swap_on_epoch=use_ema)
    # Leaves the average where it is.
    predicts = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda *_: model.predict(X, callbacks=[swap], verbose=0)
    )
    callbacks = [before, predicts, swap, spy]
    fit(model, *callbacks, validation_data=(X, Y), epochs=3)
    average = model.get_weights()
    assert_same(spy.in_test[-1], average)
    for seen in before, spy:
        assert_same(seen.at_end[-1], average)
    # The training was the same, and its weights come back.
    model.optimizer.swap_out_average()
    assert_same(state(model), state(plain))
    assert np.abs(average[0] - model.get_weights()[0]).max() > 1e-3
    with model.optimizer.averaged_weights():
        expected = model.evaluate(X, Y, verbose=0)
    swapped = model.evaluate(X, Y, callbacks=[swap], verbose=0)
    assert swapped == pytest.approx(expected, rel=1e-6)
    assert swapped != model.evaluate(X, Y, verbose=0)
    # As does a prediction within an evaluation.
    predicts = keras.callbacks.LambdaCallback(
        on_test_batch_begin=lambda *_, **__: model.predict(
            X, callbacks=[swap], verbose=0
        )
    )
    within = model.evaluate(X, Y, callbacks=[swap, predicts], verbose=0)
    assert within == swapped
    with model.optimizer.averaged_weights():
        expected = model.predict(X, verbose=0)
    swapped = model.predict(X, callbacks=[swap], verbose=0)
    np.testing.assert_array_equal(swapped, expected)


@pytest.mark.parametrize(
    "how", [{}, slow({"steps_per_execution": 2, "jit_compile": True})], ids=str
)
def test_evaluations_by_other_callbacks_leave_training_alone(how):
    plain, model = make_model(), make_model()
    swap, before = tf_opt.callbacks.SwapAveragedWeights(), Spy()

    def evaluate(*_, **__) -> None:
        model.evaluate(X, Y, callbacks=[swap], verbose=0)

    def fail(*_, **__) -> None:
        with pytest.raises(KeyboardInterrupt):
            model.evaluate(X, Y, callbacks=[swap, Interrupts()], verbose=0)

    evaluates = keras.callbacks.LambdaCallback(
        on_train_batch_begin=fail,
        on_train_batch_end=evaluate,
        on_epoch_end=evaluate,
    )
    for each in plain, model:
        each.compile(each.optimizer, "mse", **how)
    fit(plain, epochs=2)
    callbacks = [before, evaluates, swap]
    fit(model, *callbacks, epochs=2, validation_data=(X, Y))
    assert_same(before.at_end[-1], model.get_weights())
    # A `fit` of no epochs changes nothing.
    fit(model, swap, initial_epoch=2, epochs=2)
    assert_same(before.at_end[-1], model.get_weights())
    model.optimizer.swap_out_average()
    assert_same(state(model), state(plain))


class Interrupts(keras.callbacks.Callback):
    def on_test_batch_end(self, batch, logs=None):
        raise KeyboardInterrupt

    on_train_batch_end = on_test_batch_end


def test_an_interrupted_fit_has_no_part_in_a_later_evaluation():
    model, swap = make_model(), tf_opt.callbacks.SwapAveragedWeights()
    with pytest.raises(KeyboardInterrupt):
        fit(model, swap, Interrupts())
    new = tf_opt.callbacks.SwapAveragedWeights()
    again = keras.callbacks.CallbackList([new], model=model)
    for callbacks in [swap], [swap], again, again:
        model.evaluate(X, Y, callbacks=callbacks, verbose=0)
        assert not model.optimizer.average_is_swapped_in


@pytest.mark.parametrize("swap_on_epoch", [None, slow(False), True])
def test_best_weights_are_restored_as_with_keras(swap_on_epoch):
    found = []
    for module in tf_opt, keras.optimizers:
        model = compiled(module.Adam(0.1, use_ema=True, ema_momentum=0.5))
        best = keras.callbacks.EarlyStopping(
            mode="max", patience=1, restore_best_weights=True
        )
        for _ in range(2):
            callbacks = [best]
            if swap_on_epoch is not None:
                swap = keras.callbacks.SwapEMAWeights(swap_on_epoch)
                callbacks = [swap, best]
            fit(model, *callbacks, epochs=3, validation_data=(X, Y))
            found.append(model.get_weights())
    ours, theirs = found[:2], found[2:]
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_a_moving_average_is_swapped_as_keras_swaps_it():
    results = []
    for swap in (
        tf_opt.callbacks.SwapAveragedWeights(swap_on_epoch=True),
        keras.callbacks.SwapEMAWeights(swap_on_epoch=True),
    ):
        optimizer = tf_opt.Adam(0.1, use_ema=True, ema_momentum=0.5)
        model, spy = compiled(optimizer), Spy()
        fit(model, swap, spy, validation_data=(X, Y), epochs=3)
        results.append([*spy.in_test, *spy.at_end, model.get_weights()])
    for ours, theirs in zip(*results, strict=True):
        assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_the_callback_needs_an_optimizer_with_an_average():
    swap = tf_opt.callbacks.SwapAveragedWeights()
    for optimizer, message in (
        (tf_opt.Adam(), "that has `use_ema=True`"),
        (keras.optimizers.SGD(), "compiled with tf_opt.AveragedSGD"),
    ):
        model = compiled(optimizer)
        with pytest.raises(ValueError, match=message):
            model.evaluate(X, Y, callbacks=[swap], verbose=0)
