"""What only AveragedSGD has: the step size's lag, and a usable average."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

implementations = pytest.mark.parametrize(
    "implementation", ["custom_op", "composed"]
)


@implementations
def test_a_changing_learning_rate_acts_one_step_later_as_in_torch(
    implementation,
):
    torch = pytest.importorskip("torch")
    schedule = keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.75)
    variable = keras.Variable([2.0, -1.0], dtype="float64")
    optimizer = tf_opt.AveragedSGD(
        schedule, lambd=0.25, t0=2, implementation=implementation
    )
    parameter = torch.nn.Parameter(
        torch.tensor([2.0, -1.0], dtype=torch.double)
    )
    theirs = torch.optim.ASGD(
        [parameter], lr=0.5, lambd=0.25, t0=2, foreach=False
    )
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        for step in range(12):
            gradient = np.array([0.5, -0.25]) / (step + 1)
            optimizer.apply([tf.constant(gradient)], [variable])
            theirs.param_groups[0]["lr"] = float(schedule(step))
            parameter.grad = torch.tensor(gradient)
            theirs.step()
            np.testing.assert_allclose(
                variable.numpy(), parameter.detach().numpy(), rtol=1e-12
            )
            np.testing.assert_allclose(
                optimizer.variables[1].numpy(),
                theirs.state[parameter]["ax"].numpy(),
                rtol=1e-12,
            )
    finally:
        torch.set_default_dtype(default)


def trained() -> tuple[keras.Variable, tf_opt.AveragedSGD]:
    """A variable that went from 0 to 5 in five steps."""
    variable = keras.Variable([0.0], dtype="bfloat16")
    optimizer = tf_opt.AveragedSGD(1.0, lambd=0.0, t0=1)
    for _ in range(5):
        optimizer.apply([tf.constant([-1.0], tf.bfloat16)], [variable])
    return variable, optimizer


def test_the_average_swaps_in_and_out():
    variable, optimizer = trained()
    assert float(variable.numpy()[0]) == 5
    with optimizer.averaged_weights():
        assert optimizer.average_is_swapped_in
        assert float(variable.numpy()[0]) == 4  # 3 to 5: mu lags a step.
        with pytest.raises(RuntimeError, match="swap_out_average"):
            optimizer.swap_in_average()
        with pytest.raises(RuntimeError, match="swap_out_average"):
            optimizer.apply([tf.ones(1, tf.bfloat16)], [variable])
    assert float(variable.numpy()[0]) == 5
    assert not optimizer.average_is_swapped_in
    with pytest.raises(RuntimeError, match="swap_in_average"):
        optimizer.swap_out_average()


def test_the_average_comes_out_also_after_an_error():
    variable, optimizer = trained()
    with pytest.raises(KeyError), optimizer.averaged_weights():
        raise KeyError
    assert float(variable.numpy()[0]) == 5


def test_before_training_the_average_is_the_variable():
    with pytest.raises(RuntimeError, match="has not been built"):
        tf_opt.AveragedSGD().swap_in_average()
    variables = [keras.Variable([3.0]), keras.Variable([4.0])]
    optimizer = tf_opt.AveragedSGD(0.5, t0=0)
    optimizer.build(variables)
    for _ in range(3):  # The second never has a gradient.
        optimizer.apply([tf.constant([1.0])], variables[:1])
    with optimizer.averaged_weights():
        assert variables[1].numpy() == [4.0]
        assert variables[0].numpy() != [3.0]


def make_model() -> keras.Model:
    keras.utils.set_random_seed(6)
    model = keras.Sequential(
        [keras.layers.Input((2,)), keras.layers.Dense(1, name="only")]
    )
    model.compile(tf_opt.AveragedSGD(0.1, t0=3), "mse")
    return model


X = np.random.default_rng(4).normal(size=(32, 2)).astype("float32")
Y = X[:, :1] - 2 * X[:, 1:]


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


def test_the_callback_refuses_another_optimizer():
    model = make_model()
    model.compile("sgd", "mse")
    swap = tf_opt.callbacks.SwapAveragedWeights()
    with pytest.raises(ValueError, match="compiled with tf_opt.AveragedSGD"):
        model.evaluate(X, Y, callbacks=[swap], verbose=0)


def test_a_saved_average_is_a_model_to_use(tmp_path):
    model = make_model()
    model.fit(X, Y, epochs=3, batch_size=8, verbose=0)
    with model.optimizer.averaged_weights():
        model.save(tmp_path / "average.keras")
    model.save(tmp_path / "state.keras")
    used = keras.models.load_model(tmp_path / "average.keras")
    restored = keras.models.load_model(tmp_path / "state.keras")
    average = model.optimizer.variables[2].numpy()
    np.testing.assert_array_equal(used.get_weights()[0], average)
    np.testing.assert_array_equal(
        restored.get_weights()[0], model.get_weights()[0]
    )
    with restored.optimizer.averaged_weights():
        np.testing.assert_array_equal(restored.get_weights()[0], average)
