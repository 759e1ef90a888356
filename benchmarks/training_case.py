"""Measures the training of one model, in a process of its own.

training.py starts it. What it has to say it prints as JSON, a line a message;
see terminal.py.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable

# Before the imports that import TensorFlow.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import tensorflow as tf
import tf_opt

import machine
import training_tasks
from training_tasks import Task

OPTIMIZERS: dict[str, Callable[[], keras.optimizers.Optimizer]] = {
    "Keras": lambda: keras.optimizers.AdamW(1e-3, global_clipnorm=1.0),
    "tf_opt": lambda: tf_opt.AdamW(
        1e-3,
        weight_decay=0.004,
        epsilon=1e-7,
        epsilon_hat=True,
        global_clipnorm=1.0,
    ),
}


class Training:
    """A model and its optimizer, that train batch after batch.

    Attributes:
        model: The model.
        losses: The losses of the steps so far.
    """

    def __init__(
        self, task: Task, optimizer: keras.optimizers.Optimizer
    ) -> None:
        # The same weights for each.
        keras.utils.set_random_seed(1)
        self.losses: list[float] = []
        self.model = task.make()
        self._optimizer = optimizer
        self._loss = task.loss
        optimizer.build(self.model.trainable_variables)
        self._batches = [
            (tf.constant(x), tf.constant(y))
            for x, y in zip(task.x, task.y, strict=True)
        ]
        decorate = tf.function if task.in_graph else lambda step: step
        self._train_step = decorate(self._train)
        # What a step's optimizer takes, with gradients that are there.
        gradients = self._gradients(*self._batches[0])[1]
        self._apply = decorate(
            lambda: optimizer.apply(gradients, self.model.trainable_variables)
        )

    def _gradients(
        self, x: tf.Tensor, y: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            loss = self._loss(y, self.model(x, training=True))
        return loss, tape.gradient(loss, self.model.trainable_variables)

    def _train(self, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        loss, gradients = self._gradients(x, y)
        self._optimizer.apply(gradients, self.model.trainable_variables)
        return loss

    def train(self, steps: int) -> None:
        """Takes steps."""
        for _ in range(steps):
            batch = self._batches[len(self.losses) % len(self._batches)]
            self.losses.append(float(self._train_step(*batch)))

    def apply(self, steps: int) -> None:
        """Takes the optimizer's part of steps."""
        for _ in range(steps):
            self._apply()


def _milliseconds(take: Callable[[int], None], steps: int) -> float:
    start = time.perf_counter()
    take(steps)
    return 1e3 * (time.perf_counter() - start) / steps


def _say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def main() -> None:
    """Measures the task that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=training_tasks.TASKS)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    arguments = parser.parse_args()
    cores = machine.count_cores()
    tf.config.threading.set_intra_op_parallelism_threads(cores)
    tf.config.threading.set_inter_op_parallelism_threads(cores)
    _say(doing="building", part=0.0)
    task = training_tasks.TASKS[arguments.task]()
    trainings = {
        name: Training(task, make()) for name, make in OPTIMIZERS.items()
    }
    samples: dict[str, dict[str, list[float]]] = {
        name: {"step": [], "apply": []} for name in trainings
    }
    for training in trainings.values():
        training.train(len(task.x))
    # The losses first: steps of one gradient alone change the model.
    for part, key in enumerate(("step", "apply")):
        for training in trainings.values():
            take = training.train if key == "step" else training.apply
            take(2)
        for done in range(arguments.rounds):
            _say(doing=key, part=(part + done / arguments.rounds) / 2)
            # Each in turn, so that what else the machine does hits both.
            names = list(trainings)[:: 1 if done % 2 else -1]
            for name in names:
                training = trainings[name]
                take = training.train if key == "step" else training.apply
                samples[name][key].append(_milliseconds(take, arguments.steps))
    _say(
        title=task.title,
        machine=machine.describe(),
        variables=len(trainings["Keras"].model.trainable_variables),
        parameters=trainings["Keras"].model.count_params(),
        results={
            name: {
                "step_ms": statistics.median(samples[name]["step"]),
                "apply_ms": statistics.median(samples[name]["apply"]),
                "losses": training.losses,
            }
            for name, training in trainings.items()
        },
    )


if __name__ == "__main__":
    main()
