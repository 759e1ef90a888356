"""Steps of an optimizer on known numbers, and ways to run a step."""

from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

# A variable and its slots, by name.
State = dict[str, np.ndarray]

RUNS: dict[str, Callable[[Callable], Callable]] = {
    "eager": lambda step: step,
    "tf.function": tf.function,
    "jit_compile": tf.function(jit_compile=True),
}


def after_each(
    step: Callable[[tf.Tensor], None],
    gradients: np.ndarray,
    kept: Mapping[str, keras.Variable],
) -> State:
    """Takes all steps in one call; returns what is `kept`, a row for each step.

    A call of a `tf.function` takes longer than a small step.
    """

    def row(gradient: tf.Tensor) -> dict[str, tf.Tensor]:
        step(gradient)
        return {key: tf.identity(x) for key, x in kept.items()}

    types = {key: x.dtype for key, x in kept.items()}
    rows = tf.function(tf.map_fn)(
        row, tf.constant(gradients), None, 1, fn_output_signature=types
    )
    return {key: x.numpy() for key, x in rows.items()}


def initial_value(shape: Sequence[int]) -> np.ndarray:
    """A variable to start from, with which no decayed gradient cancels."""
    return np.random.default_rng(0).normal(size=shape)


def gradient(shape: Sequence[int], step: int) -> np.ndarray:
    """The gradient of a step; a few elements are 0.

    Over seven steps it shrinks to a 64th, so that second moments fall below
    their maximum, then it is large again.
    """
    random = np.random.default_rng(step)
    return np.round(random.normal(size=shape) * 8) / 8 * 0.5 ** (step % 7)
