"""Steps of an optimizer on known numbers, and ways to run a step."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from registry import OPTIMIZERS

LEARNING_RATE = 0.01

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


def last(
    name: str,
    mode: str,
    dtype: str,
    shapes: Sequence[Sequence[int]],
    *,
    how: str = "eager",
    implementation: str = "auto",
    steps: int,
    change_gradient: Callable[
        [np.ndarray, int], np.ndarray
    ] = lambda gradient, _: gradient,
    **overrides: object,
) -> list[State]:
    """Steps variables of these shapes together; returns their last states.

    `overrides` are more arguments of the optimizer.
    """
    under_test = OPTIMIZERS[name]
    numpy_dtype = tf.as_dtype(dtype).as_numpy_dtype
    variables = [
        keras.Variable(initial_value(shape).astype(numpy_dtype), dtype=dtype)
        for shape in shapes
    ]
    optimizer = under_test.make(
        LEARNING_RATE,
        implementation=implementation,
        **{**under_test.modes[mode], **overrides},
    )
    optimizer.build(variables)
    apply = RUNS[how](lambda gradients: optimizer.apply(gradients, variables))
    for number in range(1, steps + 1):
        gradients = [
            change_gradient(gradient(shape, number).astype(numpy_dtype), number)
            for shape in shapes
        ]
        apply([tf.constant(g) for g in gradients])
    columns = {"variable": variables, **under_test.find_slots(optimizer)}
    return [
        {key: column[i].numpy() for key, column in columns.items()}
        for i in range(len(variables))
    ]
