"""Steps of an optimizer on known numbers, with everything it remembers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from registry import OPTIMIZERS

LEARNING_RATE = 0.01
# Keras holds it in a float32 variable.
STORED_LEARNING_RATE = float(np.float32(LEARNING_RATE))

State = dict[str, np.ndarray]

RUNS: dict[str, Callable[[Callable], Callable]] = {
    "eager": lambda step: step,
    "tf.function": tf.function,
    "jit_compile": tf.function(jit_compile=True),
}


class Step(NamedTuple):
    """One step, as seen from outside; each list has an item per variable.

    Attributes:
        number: Counted from 1.
        gradients: What the optimizer was given.
        before: The variable and its slots, by name, before the step.
        after: The same after it.
    """

    number: int
    gradients: list[np.ndarray]
    before: list[State]
    after: list[State]


@functools.cache
def _numbers(size: int) -> np.ndarray:
    """Both signs, and magnitudes from 0.01 to 100."""
    generator = np.random.default_rng(size)
    signs = generator.choice([-1.0, 1.0], size)
    return signs * 10 ** generator.uniform(-2, 2, size)


def initial_value(shape: Sequence[int]) -> np.ndarray:
    """A variable to start from: `_numbers` and a few zeros."""
    value = _numbers(int(np.prod(shape))).copy()
    value[3::16] = 0
    return value.reshape(shape)


def gradient(shape: Sequence[int], step: int) -> np.ndarray:
    """The gradient of a step, never near the denormals of any type.

    Over seven steps it shrinks to a 64th, so that second moments fall below
    their maximum, then it is large again. A few elements are always 0.
    """
    value = np.roll(_numbers(int(np.prod(shape))), 7 * step)
    value = value * 0.5 ** (step % 7)
    value[5::16] = 0
    return value.reshape(shape)


def _unchanged(gradient: np.ndarray, step: int) -> np.ndarray:
    return gradient


def run(
    name: str,
    mode: str,
    dtype: str,
    shapes: Sequence[Sequence[int]],
    *,
    how: str = "eager",
    implementation: str = "auto",
    steps: int = 20,
    change_gradient: Callable[[np.ndarray, int], np.ndarray] = _unchanged,
    **overrides: object,
) -> Iterator[Step]:
    """Runs an optimizer on variables of these shapes, all in each step.

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
    slots = under_test.find_slots(optimizer)
    apply = RUNS[how](lambda gradients: optimizer.apply(gradients, variables))

    def states() -> list[State]:
        columns = {"variable": variables, **slots}
        return [
            {key: column[i].numpy() for key, column in columns.items()}
            for i in range(len(variables))
        ]

    before = states()
    for number in range(1, steps + 1):
        gradients = [
            change_gradient(gradient(shape, number).astype(numpy_dtype), number)
            for shape in shapes
        ]
        apply([tf.constant(g) for g in gradients])
        after = states()
        yield Step(number, gradients, before, after)
        before = after


def last(*args: object, **kwargs: object) -> list[State]:
    """The states after the last step of `run(...)`."""
    *_, step = run(*args, **kwargs)
    return step.after
