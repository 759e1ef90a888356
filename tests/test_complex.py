"""A complex variable is two real ones: PyTorch's numbers, and every feature."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from registry import OPTIMIZERS
from torch_trajectory import TORCH_MODES
from trajectory import RUNS

# A float32 has it exactly, and so has Keras' variable that holds it.
LEARNING_RATE = 2.0**-5
SHAPE = (4, 3)
STEPS = 12
REAL = {"complex64": "float32", "complex128": "float64"}


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
    ("dtype", "tolerance"), [("complex64", 2e-6), ("complex128", 1e-12)]
)
@pytest.mark.parametrize(("name", "mode"), TORCH_MODES)
def test_numbers_are_those_of_torch(
    name: str, mode: str, dtype: str, tolerance: float
) -> None:
    torch = pytest.importorskip("torch")
    under_test = OPTIMIZERS[name]
    arguments = under_test.modes[mode]
    counterpart = under_test.torch(arguments)
    parameter = torch.nn.Parameter(torch.tensor(START.astype(dtype)))
    theirs = getattr(torch.optim, counterpart.name)(
        [parameter], lr=LEARNING_RATE, foreach=False, **counterpart.arguments
    )
    variable = tf.Variable(START.astype(dtype))
    ours = under_test.make(LEARNING_RATE, **arguments)
    ours.build([variable])
    default = torch.get_default_dtype()
    for gradient in GRADIENTS:
        gradient = gradient.astype(dtype)
        parameter.grad = torch.tensor(gradient)
        # PyTorch keeps a step's scalars in its default type.
        torch.set_default_dtype(torch.float64)
        try:
            theirs.step()
        finally:
            torch.set_default_dtype(default)
        ours.apply([tf.constant(gradient)], [variable])
        np.testing.assert_allclose(
            _view(variable.numpy()),
            _view(parameter.detach().numpy()),
            rtol=tolerance,
            atol=tolerance,
        )


def test_the_gradient_is_that_of_torch() -> None:
    """Of a real loss: its direction of steepest ascent, not the conjugate."""
    torch = pytest.importorskip("torch")
    matrix = _random(1)
    z = torch.tensor(START, requires_grad=True)
    ((torch.tensor(matrix) * z).abs() ** 2 + (z**2).real).sum().backward()
    w = tf.constant(START)
    with tf.GradientTape() as tape:
        tape.watch(w)
        loss = tf.reduce_sum(tf.abs(matrix * w) ** 2 + tf.math.real(w**2))
    gradient = tape.gradient(loss, w)
    np.testing.assert_allclose(gradient, z.grad.numpy(), rtol=1e-13)
    expected = 2 * np.abs(matrix) ** 2 * START + 2 * START.conj()
    np.testing.assert_allclose(gradient, expected, rtol=1e-13)


def test_clipping_by_norm_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    parameters, variables = [], []
    for seed in (1, 2):
        parameters.append(torch.nn.Parameter(torch.tensor(_random(seed))))
        variables.append(tf.Variable(_random(seed)))
    theirs = torch.optim.Adam(parameters, lr=LEARNING_RATE, eps=0.1)
    # Not a hundredth of a percent of it is lost, as PyTorch adds 1e-6.
    ours = tf_opt.Adam(LEARNING_RATE, epsilon=0.1, global_clipnorm=0.5)
    ours.build(variables)
    for step in (3, 5):
        gradients = [_random(step), _random(step + 1)]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = torch.tensor(gradient)
        torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        theirs.step()
        ours.apply([tf.constant(gradient) for gradient in gradients], variables)
    for variable, parameter in zip(variables, parameters, strict=True):
        np.testing.assert_allclose(
            variable.numpy(), parameter.detach().numpy(), rtol=1e-6
        )


def _with_bad_ones() -> list[np.ndarray]:
    gradients = [gradient.copy() for gradient in GRADIENTS]
    gradients[3][0, 0] = complex(1, np.inf)
    gradients[5][1, 1] = complex(np.nan, 0)
    return gradients


def _sparse(gradient: np.ndarray, step: int) -> tf.IndexedSlices:
    # A row twice, another row every other time.
    rows = tf.constant([step % 2, 0, 2])
    shape = tf.constant(gradient.shape)
    return tf.IndexedSlices(tf.constant(gradient[:3]), rows, shape)


# What optimizer, in which mode, with which gradients.
FEATURES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "clipvalue": ("Adam", {"clipvalue": 0.3}, {}),
    "clipnorm": ("AveragedSGD", {"clipnorm": 0.5}, {}),
    "global_clipnorm": ("ASGD", {"global_clipnorm": 0.5, "batch_num": 3}, {}),
    "use_ema": ("NAdam", {"use_ema": True, "ema_momentum": 0.5}, {}),
    "ema_overwrites": (
        "AdamW",
        {"use_ema": True, "ema_overwrite_frequency": 3},
        {},
    ),
    "accumulation": (
        "Adam",
        {"gradient_accumulation_steps": 3, "clipnorm": 0.4},
        {},
    ),
    "loss_scale": ("NAdam", {"loss_scale_factor": 8.0}, {}),
    "skip_nonfinite": (
        "AdamW",
        {"skip_nonfinite": True},
        {"gradients": _with_bad_ones()},
    ),
    "track_gradient_norm": ("ASGD", {"track_gradient_norm": True}, {}),
    "multipliers": (
        "Adam",
        {
            "learning_rate_multipliers": {"^w$": 0.5},
            "weight_decay": 0.1,
            "weight_decay_multipliers": {"^w$": 2.0},
        },
        {},
    ),
    "epsilon_hat": ("Adam", {"epsilon_hat": True, "amsgrad": True}, {}),
    "ignored": ("Adam", {"stochastic_rounding": True, "seed": 1}, {}),
    "masters_ignored": ("Adam", {"master_weights": True}, {}),
    "sparse": ("Adam", {}, {"sparse": True}),
    "sparse_lazy": ("NAdam", {"lazy_mode": True}, {"sparse": True}),
    "sparse_accumulated": (
        "AdamW",
        {"gradient_accumulation_steps": 2, "clipnorm": 0.3},
        {"sparse": True},
    ),
    "sparse_lazy_accumulated": (
        "Adam",
        {
            "gradient_accumulation_steps": 2,
            "lazy_mode": True,
            "use_ema": True,
            "clipvalue": 0.3,
        },
        {"sparse": True},
    ),
}


def _train(
    value: np.ndarray,
    dtype: str,
    gradients: list[np.ndarray],
    optimizer: keras.optimizers.Optimizer,
    how: Callable[[Callable], Callable],
    *,
    sparse: bool,
) -> list[np.ndarray]:
    """The variable and the optimizer's, after each of some gradients."""
    variable = keras.Variable(value, dtype=dtype, name="w")
    optimizer.build([variable])
    apply = how(lambda gradient: optimizer.apply([gradient], [variable]))
    for step, gradient in enumerate(gradients):
        gradient = gradient.astype(dtype)
        apply(_sparse(gradient, step) if sparse else tf.constant(gradient))
    found = [variable.numpy(), *(v.numpy() for v in optimizer.variables)]
    if optimizer.skip_nonfinite:
        found.append(optimizer.skipped_steps.numpy())
    if optimizer.track_gradient_norm:
        found.append(optimizer.gradient_norm.numpy())
    return found


# Norms are summed in another order, and XLA contracts.
WAYS = [
    ("eager", "complex64", 2e-6),
    ("tf.function", "complex128", 1e-14),
    ("jit_compile", "complex64", 2e-6),
]


@pytest.mark.parametrize(
    ("feature", "how", "dtype", "tolerance"),
    [(feature, *WAYS[i % len(WAYS)]) for i, feature in enumerate(FEATURES)],
)
def test_every_feature_does_what_it_does_to_two_reals(
    feature: str, how: str, dtype: str, tolerance: float
) -> None:
    name, arguments, options = FEATURES[feature]
    gradients = options.get("gradients", GRADIENTS)
    run = functools.partial(
        _train, how=RUNS[how], sparse=options.get("sparse", False)
    )

    def make() -> keras.optimizers.Optimizer:
        return OPTIMIZERS[name].make(
            LEARNING_RATE, implementation="composed", **arguments
        )

    actual = run(START, dtype, gradients, make())
    expected = run(
        _view(START), REAL[dtype], [_view(g) for g in gradients], make()
    )
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        if np.iscomplexobj(ours):
            assert ours.dtype == dtype
            ours = _view(ours)
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
    assert np.all(np.isfinite(actual[0]))


def test_replicas_sum_complex_gradients(
    strategy: tf.distribute.Strategy,
) -> None:
    dtype = "complex64"
    gradient = tf.constant(GRADIENTS[0].astype(dtype))
    rows = _sparse(GRADIENTS[1].astype(dtype), 1)
    with strategy.scope():
        variables = [tf.Variable(START.astype(dtype)) for _ in range(2)]
        optimizer = tf_opt.Adam(LEARNING_RATE, clipnorm=0.5, use_ema=True)
        optimizer.build(variables)

    @tf.function
    def step() -> None:
        replica = tf.distribute.get_replica_context()
        part = tf.cast(replica.replica_id_in_sync_group + 1, dtype)
        scaled = tf.IndexedSlices(part * rows.values, rows.indices)
        optimizer.apply([part * gradient, scaled], variables)

    strategy.run(step)
    alone = [tf.Variable(START.astype(dtype)) for _ in range(2)]
    optimizer = tf_opt.Adam(LEARNING_RATE, clipnorm=0.5, use_ema=True)
    sum_of_rows = tf.IndexedSlices(
        3 * rows.values, rows.indices, rows.dense_shape
    )
    optimizer.apply([3 * gradient, tf.convert_to_tensor(sum_of_rows)], alone)
    for variable, expected in zip(variables, alone, strict=True):
        for copy in strategy.experimental_local_results(variable):
            np.testing.assert_allclose(copy, expected, rtol=1e-6)


def test_what_is_saved_goes_on_as_if_it_had_not_been(tmp_path) -> None:
    def make() -> tf.train.Checkpoint:
        variable = tf.Variable(START)
        optimizer = tf_opt.Adam(LEARNING_RATE, amsgrad=True, use_ema=True)
        optimizer.build([variable])
        return tf.train.Checkpoint(variable=variable, optimizer=optimizer)

    def train(job: tf.train.Checkpoint, gradients: list[np.ndarray]) -> None:
        for gradient in gradients:
            job.optimizer.apply([tf.constant(gradient)], [job.variable])

    before, after = make(), make()
    train(before, GRADIENTS[:5])
    path = before.write(str(tmp_path / "checkpoint"))
    after.read(path).assert_consumed()
    for job in (before, after):
        train(job, GRADIENTS[5:])
    np.testing.assert_array_equal(before.variable, after.variable)


def test_averages_are_swapped_in() -> None:
    variable = keras.Variable(START, dtype="complex128")
    optimizer = tf_opt.AveragedSGD(LEARNING_RATE, t0=1, lambd=0.0)
    iterates = []
    for gradient in GRADIENTS[:4]:
        optimizer.apply([tf.constant(gradient)], [variable])
        iterates.append(variable.numpy())
    with optimizer.averaged_weights():
        average = variable.numpy()
    np.testing.assert_allclose(average, np.mean(iterates[2:], 0), rtol=1e-12)
    np.testing.assert_array_equal(variable.numpy(), iterates[-1])


class Multiply(keras.layers.Layer):
    """The magnitudes of the inputs' products with a complex matrix."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Makes the matrix."""
        self.matrix = self.add_weight(
            shape=SHAPE,
            dtype="complex64",
            initializer=lambda shape, dtype: tf.constant(START, dtype),
        )

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Multiplies."""
        return tf.abs(tf.cast(inputs, tf.complex64) @ self.matrix.value)


def test_fit_trains_a_complex_layer() -> None:
    x = np.random.default_rng(0).normal(size=(256, 4)).astype("float32")
    y = np.abs(x @ _random(7))
    model = keras.Sequential([keras.Input((4,)), Multiply()])
    model.compile(tf_opt.Adam(0.05), "mse")
    losses = model.fit(x, y, epochs=30, verbose=0).history["loss"]
    # Signs and phases are for the network to choose.
    assert losses[-1] < 0.05 * losses[0]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_training_is_differentiated_as_two_reals(compiled: bool) -> None:
    matrix = _random(1)

    def loss(w: tf.Tensor, iteration: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.abs(matrix * w - 1) ** 2)

    def loss_of_view(w: tf.Tensor, iteration: tf.Tensor) -> tf.Tensor:
        return loss(tf.complex(w[..., 0], w[..., 1]), iteration)

    def derivatives(loss, start, rate):
        with tf.GradientTape() as tape:
            tape.watch((start, rate))
            end = tf_opt.functional.unroll(
                tf_opt.functional.adam, loss, start, 5, learning_rate=rate
            ).losses[-1]
        return tape.gradient(end, (start, rate))

    if compiled:
        derivatives = tf.function(derivatives, jit_compile=True)
    rate = tf.constant(0.1, tf.float64)
    of_start, of_rate = derivatives(loss, tf.constant(START), rate)
    expected, expected_of_rate = derivatives(
        loss_of_view, tf.constant(_view(START)), rate
    )
    np.testing.assert_allclose(_view(of_start.numpy()), expected, rtol=1e-9)
    np.testing.assert_allclose(of_rate, expected_of_rate, rtol=1e-9)
