"""A complex variable is two real ones, as in PyTorch."""

import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from registry import OPTIMIZERS, THOROUGH_MODES, pairwise
from trajectory import RUNS

# A float32 has it exactly, and so has Keras' variable that holds it.
LEARNING_RATE = 2.0**-5


def _random(seed: int) -> np.ndarray:
    real, imaginary = np.random.default_rng(seed).normal(size=(2, 4, 3))
    return real + 1j * imaginary


TOLERANCES = {"complex64": 2e-6, "complex128": 1e-12}
START = _random(0)
# Shrinking for four steps, so that AMSGrad differs.
GRADIENTS = [3 * 0.5 ** (t % 5) * _random(t) for t in range(1, 13)]


def _view(array: np.ndarray) -> np.ndarray:
    """Real and imaginary parts beside each other, as PyTorch's view."""
    return np.stack([array.real, array.imag], axis=-1)


@pytest.mark.parametrize(
    ("name", "mode", "how", "features", "dtype"),
    # What the features do, they do before any rule.
    pairwise(
        THOROUGH_MODES,
        [*RUNS, "replicas"],
        [{}, {"clipnorm": 0.5}, {"clipvalue": 0.3}, {"global_clipnorm": 1}],
        TOLERANCES,
    ),
)
def test_a_complex_number_is_two_reals(
    name, mode, how, features, dtype, strategy
):
    under_test = OPTIMIZERS[name]
    scope = strategy if how == "replicas" else tf.distribute.get_strategy()
    start = START.astype(dtype)
    gradients = [gradient.astype(dtype) for gradient in GRADIENTS]
    found = []
    for value, steps in (
        (start, gradients),
        (_view(start), map(_view, gradients)),
    ):
        with scope.scope():
            variable = tf.Variable(value)
            optimizer = under_test.make(
                LEARNING_RATE, **under_test.modes[mode], **features
            )
            optimizer.build([variable])

        def on_replica(gradient, optimizer=optimizer, variable=variable):
            # A quarter of it and the rest; all of it in the only replica.
            context = tf.distribute.get_replica_context()
            weight = 2 * context.replica_id_in_sync_group + 1
            part = tf.cast(weight, gradient.dtype) * gradient
            part /= scope.num_replicas_in_sync**2
            optimizer.apply([part], [variable])

        step = RUNS.get(how, tf.function)(
            lambda gradient, run=on_replica: scope.run(run, (gradient,))
        )
        for gradient in steps:
            step(tf.constant(gradient))
        *_, copy = scope.experimental_local_results(variable)
        found.append(copy.numpy())
    tolerance = TOLERANCES[dtype]
    np.testing.assert_allclose(
        _view(found[0]), found[1], rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize(
    "option",
    [
        {"use_ema": True},
        {"gradient_accumulation_steps": 2},
        {"state_dtype": "bfloat16"},
    ],
    ids=str,
)
def test_other_options_are_refused(option):
    optimizer = tf_opt.Adam(LEARNING_RATE, **option)
    (name,) = option
    with pytest.raises(ValueError, match=f"`{name}` is not available for comp"):
        optimizer.build([tf.Variable(START)])


@pytest.mark.parametrize("lazy_mode", [False, True])
def test_sparse_gradients_are_refused(how, lazy_mode):
    variable = tf.Variable(START)
    optimizer = tf_opt.Adam(LEARNING_RATE, lazy_mode=lazy_mode)
    optimizer.build([variable])
    slices = tf.IndexedSlices(tf.constant(START[:1]), [0])
    with pytest.raises(ValueError, match="a complex variable, must be dense"):
        RUNS[how](lambda: optimizer.apply([slices], [variable]))()
