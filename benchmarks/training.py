"""Measures the training of a small model on real data.

The texts are the help topics that come with Python, the images are the digits
that come with scikit-learn.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable
from pydoc_data.topics import topics
from typing import NamedTuple

import keras
import numpy as np
import sklearn.datasets
import tensorflow as tf
import tf_opt

from case import Options
from results import Row

_LAYERS = keras.layers
_LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
_BATCHES = 16


class _Task(NamedTuple):
    """A model to train, and its data.

    Attributes:
        title: The title in tables.
        make: Makes the model.
        x: The inputs.
        y: Their labels.
        size: How many a batch has.
        in_graph: Whether a train step is a tf.function, or eager.
    """

    title: str
    make: Callable[[], keras.Model]
    x: np.ndarray
    y: np.ndarray
    size: int
    in_graph: bool = True

    def batches(self) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Makes tensors of the first batches."""
        starts = range(0, _BATCHES * self.size, self.size)
        return [
            (
                tf.constant(self.x[start : start + self.size]),
                tf.constant(self.y[start : start + self.size]),
            )
            for start in starts
        ]


def _mlp() -> _Task:
    """A small network in an eager loop, as in reinforcement learning."""
    digits = sklearn.datasets.load_digits()

    def make() -> keras.Model:
        return keras.Sequential(
            [
                keras.Input((8, 8)),
                _LAYERS.Flatten(),
                _LAYERS.Dense(64, "relu"),
                _LAYERS.Dense(64, "relu"),
                _LAYERS.Dense(10),
            ]
        )

    images = (digits.images / 16).astype(np.float32)
    title = "MLP, eager, 32 images"
    return _Task(title, make, images, digits.target, 32, in_graph=False)


def _convolutional() -> _Task:
    """The network of `make demo`, on the same digits."""

    def make() -> keras.Model:
        return keras.Sequential(
            [
                keras.Input((8, 8)),
                _LAYERS.Reshape((8, 8, 1)),
                _LAYERS.Conv2D(32, 3, activation="relu"),
                _LAYERS.Conv2D(64, 3, activation="relu"),
                _LAYERS.Flatten(),
                _LAYERS.Dense(128, "relu"),
                _LAYERS.Dense(10),
            ]
        )

    return _Task("convolutional, 64 images", make, *_mlp()[2:4], 64)


def _block(x: keras.KerasTensor) -> keras.KerasTensor:
    """Applies a transformer's block, which sees only what came before."""
    width, heads = x.shape[-1], 4
    attended = _LAYERS.LayerNormalization()(x)
    attention = _LAYERS.MultiHeadAttention(heads, width // heads)
    x = x + attention(attended, attended, use_causal_mask=True)
    wide = _LAYERS.Dense(4 * width, "gelu")(_LAYERS.LayerNormalization()(x))
    return x + _LAYERS.Dense(width)(wide)


def _transformer() -> _Task:
    """A small language model, character by character."""
    text = "\n".join(topics[name] for name in sorted(topics))
    characters = sorted(set(text))
    codes = {character: i for i, character in enumerate(characters)}
    length, size, width = 64, 8, 256
    text = text[: _BATCHES * size * (length + 1)]
    encoded = np.array([codes[character] for character in text])
    encoded = encoded.reshape((-1, length + 1))

    def make() -> keras.Model:
        inputs = keras.Input((length,), dtype="int32")
        positions = _LAYERS.Embedding(length, width)(keras.ops.arange(length))
        x = _LAYERS.Embedding(len(characters), width)(inputs) + positions
        for _ in range(4):
            x = _block(x)
        return keras.Model(inputs, _LAYERS.Dense(len(characters))(x))

    title = "transformer, 8 x 64 characters"
    return _Task(title, make, encoded[:, :-1], encoded[:, 1:], size)


def _embedding() -> _Task:
    """Words from the words around them: two large tables, few of their rows."""
    words = re.findall(r"[a-z]+", " ".join(topics.values()).lower())
    codes = {word: i for i, word in enumerate(dict.fromkeys(words))}
    encoded = np.array([codes[word] for word in words])
    around = 4
    windows = np.lib.stride_tricks.sliding_window_view(encoded, 2 * around + 1)
    windows = np.random.default_rng(0).permutation(windows)

    def make() -> keras.Model:
        return keras.Sequential(
            [
                keras.Input((2 * around,), dtype="int32"),
                _LAYERS.Embedding(len(codes), 128),
                _LAYERS.GlobalAveragePooling1D(),
                _LAYERS.Dense(len(codes)),
            ]
        )

    return _Task(
        f"embeddings of {len(codes):,} words",
        make,
        np.delete(windows, around, axis=1),
        windows[:, around],
        size=128,
    )


# By the workload's name.
_TASKS: dict[str, Callable[[], _Task]] = {
    "mlp": _mlp,
    "convolutional": _convolutional,
    "transformer": _transformer,
    "embedding": _embedding,
}

_OPTIMIZERS: dict[str, Callable[[], keras.optimizers.Optimizer]] = {
    "Keras": lambda: keras.optimizers.AdamW(1e-3, global_clipnorm=1.0),
    "tf_opt": lambda: tf_opt.AdamW(
        1e-3,
        weight_decay=0.004,
        epsilon=1e-7,
        epsilon_hat=True,
        global_clipnorm=1.0,
    ),
}

# Takes a number of steps.
Take = Callable[[int], None]


def _training(
    task: _Task, optimizer: keras.optimizers.Optimizer
) -> dict[str, Take]:
    """Makes the functions to time: whole steps, and the optimizer's part."""
    # The same weights for each.
    keras.utils.set_random_seed(1)
    model = task.make()
    variables = model.trainable_variables
    optimizer.build(variables)
    batches = task.batches()
    next_batch = itertools.cycle(batches)
    decorate = tf.function if task.in_graph else lambda step: step

    def gradients_of(
        x: tf.Tensor, y: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            loss = _LOSS(y, model(x, training=True))
        return loss, tape.gradient(loss, variables)

    @decorate
    def train(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        loss, gradients = gradients_of(x, y)
        optimizer.apply(gradients, variables)
        return loss

    gradients = gradients_of(*batches[0])[1]

    @decorate
    def apply() -> None:
        optimizer.apply(gradients, variables)

    def take_train(steps: int) -> None:
        for _ in range(steps):
            float(train(*next(next_batch)))

    def take_apply(steps: int) -> None:
        for _ in range(steps):
            apply()

    return {"train step": take_train, "optimizer alone": take_apply}


def _milliseconds(take: Take, steps: int) -> float:
    start = time.perf_counter()
    take(steps)
    return 1e3 * (time.perf_counter() - start) / steps


def measure(variant: str, workload: str, options: Options) -> list[Row]:
    """Measures a task with Keras' AdamW and with tf_opt's."""
    task = _TASKS[workload]()
    steps = 5 if options.quick else 20
    trainings = {
        name: _training(task, make()) for name, make in _OPTIMIZERS.items()
    }
    for training in trainings.values():
        training["train step"](_BATCHES)
    rows = []
    # Whole steps first: repeating one gradient spoils the model.
    for part, key in enumerate(("train step", "optimizer alone")):
        samples: dict[str, list[float]] = {name: [] for name in trainings}
        for training in trainings.values():
            training[key](2)
        for done in range(options.rounds):
            options.on_progress(key, (part + done / options.rounds) / 2)
            # In turns, so that other load on the machine hits both.
            for name in list(trainings)[:: 1 if done % 2 else -1]:
                sample = _milliseconds(trainings[name][key], steps)
                samples[name].append(sample)
        rows += [
            Row.of(task.title, key, name, samples=each)
            for name, each in samples.items()
        ]
    return rows
