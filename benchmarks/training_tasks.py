"""Four models on real data, each small enough to be measured in a minute.

The texts are the help topics that come with Python, the images the digits that
come with scikit-learn.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Callable
from pydoc_data.topics import topics
from typing import NamedTuple

import keras
import numpy as np
import sklearn.datasets
import tensorflow as tf


class Task(NamedTuple):
    """Something to train.

    Attributes:
        title: What it is called in a table.
        make: Makes the model.
        loss: A function of labels and outputs.
        x: The inputs of some batches, stacked.
        y: Their labels, likewise.
        in_graph: Whether a train step is a tf.function, or eager.
    """

    title: str
    make: Callable[[], keras.Model]
    loss: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    x: np.ndarray
    y: np.ndarray
    in_graph: bool


_LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
_BATCHES = 16


def _batches(array: np.ndarray, size: int) -> np.ndarray:
    """The first batches, along a dimension of their own."""
    return array[: _BATCHES * size].reshape((_BATCHES, size, *array.shape[1:]))


def _digits() -> tuple[np.ndarray, np.ndarray]:
    digits = sklearn.datasets.load_digits()
    return (digits.images / 16).astype(np.float32), digits.target


def mlp() -> Task:
    """A small network in an eager loop, as reinforcement learning has them."""
    images, labels = _digits()

    def make() -> keras.Model:
        return keras.Sequential(
            [
                keras.Input((8, 8)),
                keras.layers.Flatten(),
                keras.layers.Dense(64, activation="relu"),
                keras.layers.Dense(64, activation="relu"),
                keras.layers.Dense(10),
            ]
        )

    return Task(
        "MLP, eager, 32 images",
        make,
        _LOSS,
        _batches(images, 32),
        _batches(labels, 32),
        in_graph=False,
    )


def convolutional() -> Task:
    """The network of `make demo`, on the same digits."""
    images, labels = _digits()

    def make() -> keras.Model:
        return keras.Sequential(
            [
                keras.Input((8, 8)),
                keras.layers.Reshape((8, 8, 1)),
                keras.layers.Conv2D(32, 3, activation="relu"),
                keras.layers.Conv2D(64, 3, activation="relu"),
                keras.layers.Flatten(),
                keras.layers.Dense(128, activation="relu"),
                keras.layers.Dense(10),
            ]
        )

    return Task(
        "convolutional, 64 images",
        make,
        _LOSS,
        _batches(images, 64),
        _batches(labels, 64),
        in_graph=True,
    )


class _Block(keras.layers.Layer):
    """A block of a transformer that sees only what came before."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = keras.layers.MultiHeadAttention(heads, width // heads)
        self.wide = keras.layers.Dense(4 * width, activation="gelu")
        self.narrow = keras.layers.Dense(width)
        self.norms = [keras.layers.LayerNormalization() for _ in range(2)]

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """The block's output, of the shape of its input."""
        attended = self.norms[0](x)
        x = x + self.attention(attended, attended, use_causal_mask=True)
        return x + self.narrow(self.wide(self.norms[1](x)))


def transformer() -> Task:
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
        positions = keras.layers.Embedding(length, width)(
            keras.ops.arange(length)
        )
        x = keras.layers.Embedding(len(characters), width)(inputs) + positions
        for _ in range(4):
            x = _Block(width, heads=4)(x)
        outputs = keras.layers.Dense(len(characters))(x)
        return keras.Model(inputs, outputs)

    return Task(
        "transformer, 8 x 64 characters",
        make,
        _LOSS,
        _batches(encoded[:, :-1], size),
        _batches(encoded[:, 1:], size),
        in_graph=True,
    )


def embedding() -> Task:
    """Words from the words around them: two large tables, few of their rows."""
    words = re.findall(r"[a-z]+", " ".join(topics.values()).lower())
    counts = collections.Counter(words)
    codes = {word: i for i, word in enumerate(counts)}
    encoded = np.array([codes[word] for word in words])
    around, size = 4, 128
    windows = np.lib.stride_tricks.sliding_window_view(encoded, 2 * around + 1)
    windows = np.random.default_rng(0).permutation(windows)

    def make() -> keras.Model:
        return keras.Sequential(
            [
                keras.Input((2 * around,), dtype="int32"),
                keras.layers.Embedding(len(codes), 128),
                keras.layers.GlobalAveragePooling1D(),
                keras.layers.Dense(len(codes)),
            ]
        )

    return Task(
        f"embeddings of {len(codes):,} words",
        make,
        _LOSS,
        _batches(np.delete(windows, around, axis=1), size),
        _batches(windows[:, around], size),
        in_graph=True,
    )


# How to make each, by the name on the command line.
TASKS: dict[str, Callable[[], Task]] = {
    "mlp": mlp,
    "convolutional": convolutional,
    "transformer": transformer,
    "embedding": embedding,
}
