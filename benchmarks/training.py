"""Measures the training of a small model on real data.

The texts are the help topics that come with Python, the images are the digits
that come with scikit-learn.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pydoc_data.topics import topics
from typing import NamedTuple

import keras
import numpy as np
import sklearn.datasets
import tensorflow as tf
import tf_opt

import measure as turns
import results
from measure import Options
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


def _images() -> tuple[np.ndarray, np.ndarray]:
    digits = sklearn.datasets.load_digits()
    return (digits.images / 16).astype(np.float32), digits.target


def _network(*layers: keras.Layer) -> keras.Model:
    return keras.Sequential([keras.Input((8, 8)), *layers, _LAYERS.Dense(10)])


def _mlp() -> _Task:
    """A small network in an eager loop, as in reinforcement learning."""

    def make() -> keras.Model:
        hidden = [_LAYERS.Dense(64, "relu") for _ in range(2)]
        return _network(_LAYERS.Flatten(), *hidden)

    title = "MLP, eager, 32 images"
    return _Task(title, make, *_images(), size=32, in_graph=False)


def _convolutional() -> _Task:
    def make() -> keras.Model:
        return _network(
            _LAYERS.Reshape((8, 8, 1)),
            _LAYERS.Conv2D(32, 3, activation="relu"),
            _LAYERS.Conv2D(64, 3, activation="relu"),
            _LAYERS.Flatten(),
            _LAYERS.Dense(128, "relu"),
        )

    return _Task("convolutional, 64 images", make, *_images(), size=64)


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

    title = f"embeddings of {len(codes):,} words"
    x, y = np.delete(windows, around, axis=1), windows[:, around]
    return _Task(title, make, x, y, size=128)


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


def _contenders(
    task: _Task, optimizer: keras.optimizers.Optimizer
) -> dict[str, turns.Contender]:
    """Makes what is timed: whole train steps, and the optimizer's part."""
    # The same weights for each.
    keras.utils.set_random_seed(1)
    model = task.make()
    variables = model.trainable_variables
    optimizer.build(variables)
    data = tf.data.Dataset.from_tensor_slices((task.x, task.y))
    batches = list(data.batch(task.size).take(_BATCHES))
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

    def norms() -> list[float]:
        return [float(tf.reduce_sum(tf.abs(each))) for each in variables]

    return {
        "train step": turns.Contender(
            lambda: float(train(*next(next_batch))), norms
        ),
        "optimizer alone": turns.Contender(apply, norms),
    }


def measure(variant: str, workload: str, options: Options) -> list[Row]:
    """Measures a task with Keras' AdamW and with tf_opt's."""
    task = _TASKS[workload]()
    made = {
        name: _contenders(task, make()) for name, make in _OPTIMIZERS.items()
    }
    rows = []
    # Whole steps first: repeating one gradient spoils the model.
    for part in ("train step", "optimizer alone"):
        measured = turns.measure(
            {name: contenders[part] for name, contenders in made.items()},
            options.rounds,
            seconds=60,
            steps=5 if options.quick else 20,
        )
        rows += results.rows(task.title, part, measured)
    return rows
