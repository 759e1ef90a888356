"""The callbacks for `fit`: the order of batches, the average for evaluation."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

X = np.random.default_rng(4).normal(size=(32, 2)).astype("float32")
Y = X[:, :1] - 2 * X[:, 1:]

# ---- ShuffledBatches. ----


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
    with pytest.raises(ValueError, match="this object's `dataset`.* 8 steps"):
        model.fit(x, x, batch_size=1, callbacks=[batches], verbose=0)
    model.compile(
        tf_opt.ASGD(batch_num=4, gradient_accumulation_steps=2), "mse"
    )
    with pytest.raises(ValueError, match="`gradient_accumulation_steps`.*=2"):
        model.fit(batches.dataset, callbacks=[batches], verbose=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": X, "sample_weight": X[:, 0]}, "`sample_weight` .* y=None"),
        ({"x": X, "y": Y[1:]}, r"same number of samples.*\[31, 32\]"),
        ({"x": X[:0]}, r"at least one. Received: \[0\]"),
        ({"x": 1.0}, "first dimension counts the samples"),
        ({"x": X, "batch_size": 0}, "`batch_size`.*batch_size=0"),
        ({"x": X, "batch_size": -1}, "`batch_size`.*batch_size=-1"),
        ({"x": X, "batch_size": 2.0}, "`batch_size`.*batch_size=2.0"),
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


# ---- SwapAveragedWeights. ----


def make_model() -> keras.Model:
    keras.utils.set_random_seed(6)
    model = keras.Sequential(
        [keras.layers.Input((2,)), keras.layers.Dense(1, name="only")]
    )
    model.compile(tf_opt.AveragedSGD(0.1, t0=3), "mse")
    return model


class Spy(keras.callbacks.Callback):
    """Keeps the kernel at the end of each epoch and in each evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.at_end, self.in_test = [], []

    def kernel(self) -> np.ndarray:
        return self.model.get_layer("only").kernel.numpy()

    def on_epoch_end(self, epoch, logs=None) -> None:
        self.at_end.append(self.kernel())

    def on_test_begin(self, logs=None) -> None:
        self.in_test.append(self.kernel())


@pytest.mark.core
@pytest.mark.parametrize("swap_on_epoch", [False, True])
def test_the_callback_evaluates_with_the_average(swap_on_epoch):
    plain, model, spy = make_model(), make_model(), Spy()
    arguments = {"epochs": 3, "batch_size": 8, "shuffle": False, "verbose": 0}
    plain.fit(X, Y, **arguments)
    swap = tf_opt.callbacks.SwapAveragedWeights(swap_on_epoch)
    model.fit(X, Y, validation_data=(X, Y), callbacks=[swap, spy], **arguments)
    # The training is the same, and its weights are back.
    np.testing.assert_array_equal(spy.kernel(), plain.get_weights()[0])
    average = model.optimizer.variables[2].numpy()
    assert np.abs(average - spy.kernel()).max() > 1e-3
    np.testing.assert_array_equal(spy.in_test[-1], average)
    np.testing.assert_array_equal(
        spy.at_end[-1], average if swap_on_epoch else spy.kernel()
    )
    with model.optimizer.averaged_weights():
        expected = model.evaluate(X, Y, verbose=0)
    swapped = model.evaluate(X, Y, callbacks=[swap], verbose=0)
    assert swapped == pytest.approx(expected, rel=1e-6)
    assert swapped != model.evaluate(X, Y, verbose=0)
    with model.optimizer.averaged_weights():
        expected = model.predict(X, verbose=0)
    swapped = model.predict(X, callbacks=[swap], verbose=0)
    np.testing.assert_array_equal(swapped, expected)


FIT = {"batch_size": 8, "shuffle": False, "verbose": 0}


def test_the_callback_lets_others_save_and_restore_the_average(tmp_path):
    swap, spy = tf_opt.callbacks.SwapAveragedWeights(True), Spy()
    best = keras.callbacks.EarlyStopping(
        "val_loss", mode="max", patience=1, restore_best_weights=True
    )
    save = keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.keras")
    model = make_model()
    model.fit(
        X,
        Y,
        validation_data=(X, Y),
        callbacks=[swap, spy, save, best],
        epochs=5,
        **FIT,
    )
    # The loss falls, and so the first epoch is the "best" that is restored.
    assert len(spy.at_end) == 2
    np.testing.assert_array_equal(spy.kernel(), spy.at_end[0])
    saved = keras.models.load_model(tmp_path / "2.keras")
    np.testing.assert_array_equal(saved.get_weights()[0], spy.at_end[1])

    # And training goes on from what was saved as if it hadn't been.
    through = make_model()
    through.fit(X, Y, epochs=4, **FIT)
    saved.fit(X, Y, epochs=4, initial_epoch=2, callbacks=[swap], **FIT)
    np.testing.assert_array_equal(
        saved.get_weights()[0], through.get_weights()[0]
    )
    np.testing.assert_array_equal(
        saved.optimizer.variables[2], through.optimizer.variables[2]
    )


class EvaluatesAtTheEnd(keras.callbacks.Callback):
    """Predicts with the same callbacks between two epochs; may then fail."""

    def __init__(self, swap, fails_at: int | None = None) -> None:
        super().__init__()
        self.swap, self.fails_at = swap, fails_at

    def on_epoch_end(self, epoch, logs=None) -> None:
        self.model.predict(X, callbacks=[self.swap], verbose=0)
        if epoch == self.fails_at:
            raise KeyboardInterrupt


def test_an_evaluation_between_epochs_leaves_the_average_in_place():
    swap, spy = tf_opt.callbacks.SwapAveragedWeights(True), Spy()
    model = make_model()
    model.fit(
        X, Y, epochs=2, callbacks=[swap, EvaluatesAtTheEnd(swap), spy], **FIT
    )
    assert not model.optimizer.average_is_swapped_in
    np.testing.assert_array_equal(
        spy.at_end[-1], model.optimizer.variables[2].numpy()
    )


class FailsInTest(keras.callbacks.Callback):
    """Stops an evaluation while it goes on."""

    def on_test_batch_end(self, batch, logs=None) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("new_callback", [False, True])
@pytest.mark.parametrize("where", ["between epochs", "in validation"])
def test_after_an_interrupt_training_goes_on(where, new_callback):
    swap = tf_opt.callbacks.SwapAveragedWeights(where == "between epochs")
    failing = (
        EvaluatesAtTheEnd(swap, fails_at=0)
        if where == "between epochs"
        else FailsInTest()
    )
    twin, model = make_model(), make_model()
    with pytest.raises(KeyboardInterrupt):
        model.fit(
            X, Y, validation_data=(X, Y), callbacks=[swap, failing], **FIT
        )
    assert model.optimizer.average_is_swapped_in
    if new_callback:
        swap = tf_opt.callbacks.SwapAveragedWeights()
    model.fit(X, Y, validation_data=(X, Y), callbacks=[swap], **FIT)
    assert not model.optimizer.average_is_swapped_in
    twin.fit(X, Y, epochs=2, **FIT)
    np.testing.assert_array_equal(model.get_weights()[0], twin.get_weights()[0])


def test_the_moving_average_of_keras_leaves_this_average_alone():
    results = []
    for callbacks in [], [tf_opt.callbacks.SwapAveragedWeights(True)]:
        model = make_model()
        model.compile(tf_opt.AveragedSGD(0.1, t0=3, use_ema=True), "mse")
        model.fit(X, Y, epochs=2, callbacks=callbacks, **FIT)
        results.append([v.numpy() for v in model.variables])
        results[-1] += [v.numpy() for v in model.optimizer.variables]
    for plain, swapped in zip(*results, strict=True):
        np.testing.assert_array_equal(swapped, plain)


class Seen(keras.callbacks.Callback):
    """The weights that evaluation and what comes after an epoch see."""

    def __init__(self):
        super().__init__()
        self.weights = []

    def on_test_begin(self, logs=None):
        self.weights.append(self.model.get_weights())

    def on_epoch_end(self, epoch, logs=None):
        self.weights.append(self.model.get_weights())


def fit_with_moving_average(swap, dtype="float32", **arguments):
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(1, dtype=dtype)]
    )
    optimizer = tf_opt.Adam(0.1, use_ema=True, ema_momentum=0.5)
    model.compile(optimizer, "mse")
    seen = Seen()
    model.fit(
        X,
        Y,
        validation_data=(X, Y),
        epochs=3,
        callbacks=[swap, seen],
        **FIT,
    )
    return model, seen.weights


def test_a_moving_average_is_swapped_as_keras_swaps_it():
    (model, ours), (keras_model, theirs) = (
        fit_with_moving_average(swap)
        for swap in (
            tf_opt.callbacks.SwapAveragedWeights(swap_on_epoch=True),
            keras.callbacks.SwapEMAWeights(swap_on_epoch=True),
        )
    )
    ours.append(model.get_weights())
    theirs.append(keras_model.get_weights())
    ours.append([v.numpy() for v in model.optimizer.variables])
    theirs.append([v.numpy() for v in keras_model.optimizer.variables])
    for own, their in zip(ours, theirs, strict=True):
        for a, b in zip(own, their, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_float32_average_of_bfloat16_variables_is_swapped_exactly():
    twin, _ = fit_with_moving_average(keras.callbacks.Callback(), "bfloat16")
    swap = tf_opt.callbacks.SwapAveragedWeights(swap_on_epoch=True)
    model, seen = fit_with_moving_average(swap, "bfloat16")
    # Evaluation saw the averages, and so does the last epoch's end.
    averages = model.optimizer._model_variables_moving_average
    for shown, average in zip(seen[-1], averages, strict=True):
        assert average.dtype == "float32"
        rounded = tf.cast(average, tf.bfloat16).numpy()
        np.testing.assert_array_equal(shown.astype(np.float32), rounded)
    # Training was not touched by three swaps in and out.
    for a, b in zip(
        model.optimizer.variables, twin.optimizer.variables, strict=True
    ):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_the_callback_needs_an_average():
    model = make_model()
    model.compile(tf_opt.Adam(), "mse")
    swap = tf_opt.callbacks.SwapAveragedWeights()
    with pytest.raises(ValueError, match="that has `use_ema=True`"):
        model.evaluate(X, Y, callbacks=[swap], verbose=0)


def test_the_callback_refuses_another_optimizer():
    model = make_model()
    model.compile("sgd", "mse")
    swap = tf_opt.callbacks.SwapAveragedWeights()
    with pytest.raises(ValueError, match="compiled with tf_opt.AveragedSGD"):
        model.evaluate(X, Y, callbacks=[swap], verbose=0)
