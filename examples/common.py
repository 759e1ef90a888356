"""What the examples share: how they time an optimizer's step."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

TIMED_STEPS = 300


def make_step(
    model: keras.Model, inputs: np.ndarray, labels: np.ndarray
) -> Callable[[], None]:
    """The optimizer step alone, on the model's gradients for a batch."""
    with tf.GradientTape() as tape:
        loss = model.compute_loss(y=labels, y_pred=model(inputs, training=True))
    gradients = tape.gradient(loss, model.trainable_weights)

    @tf.function
    def step() -> None:
        model.optimizer.apply(gradients, model.trainable_variables)

    return step


def time_in_turns(steps: dict[str, Callable[[], None]]) -> dict[str, float]:
    """The median milliseconds of each step, taken in turns."""
    times = {name: [] for name in steps}
    for step in steps.values():
        step()  # Traces it.
    for _ in range(TIMED_STEPS):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(times[name]) for name in steps}
