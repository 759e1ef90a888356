"""A small transformer that reads Python: it says which character comes next.

The data are on every machine: the sources that come with Python.
"""

from __future__ import annotations

import functools
import pathlib
import sysconfig

import keras
import numpy as np

# Characters are ASCII.
VOCABULARY = 128
# Of what the model reads at a time.
LENGTH = 64
WIDTH = 64
HEADS = 4
BLOCKS = 2
_TEST_SHARE = 0.1
# Folders with something other than the library itself.
_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test"}


class _Positions(keras.layers.Layer):
    """Adds a vector of its own to each place."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Makes the vectors."""
        self.vectors = self.add_weight(
            shape=input_shape[1:], initializer="uniform"
        )

    def call(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        """Adds them."""
        return inputs + self.vectors


def _block(inputs: keras.KerasTensor) -> keras.KerasTensor:
    """Attention to what came before, then a layer for each place."""
    normal = keras.layers.LayerNormalization()(inputs)
    attention = keras.layers.MultiHeadAttention(HEADS, WIDTH // HEADS)
    hidden = inputs + attention(normal, normal, use_causal_mask=True)
    normal = keras.layers.LayerNormalization()(hidden)
    wide = keras.layers.Dense(4 * WIDTH, activation="gelu")(normal)
    return hidden + keras.layers.Dense(WIDTH)(wide)


def make_model(seed: int) -> keras.Model:
    """The logits of the next character; the same weights for the same seed."""
    keras.utils.set_random_seed(seed)
    characters = keras.Input((LENGTH,), dtype="int32")
    hidden = keras.layers.Embedding(VOCABULARY, WIDTH)(characters)
    hidden = _Positions()(hidden)
    for _ in range(BLOCKS):
        hidden = _block(hidden)
    hidden = keras.layers.LayerNormalization()(hidden)
    return keras.Model(characters, keras.layers.Dense(VOCABULARY)(hidden))


@functools.cache
def _texts() -> tuple[np.ndarray, np.ndarray]:
    """The characters of the library: modules to train on, others to test."""
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    modules = [
        path.read_bytes()
        for path in sorted(root.rglob("*.py"))
        if not _LEFT_OUT & set(path.relative_to(root).parts)
    ]
    # The same modules to test with, whatever the seed of the training.
    np.random.default_rng(0).shuffle(modules)
    tested = int(_TEST_SHARE * len(modules))
    test, train = (
        np.frombuffer(b"".join(part), np.uint8)
        for part in (modules[:tested], modules[tested:])
    )
    return train[train < VOCABULARY], test[test < VOCABULARY]


def _windows(
    text: np.ndarray, count: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Places of the text at random: characters, and the ones after them."""
    starts = np.random.default_rng(seed).integers(
        len(text) - LENGTH, size=count
    )
    windows = text[starts[:, np.newaxis] + np.arange(LENGTH + 1)]
    windows = windows.astype(np.int32)
    return windows[:, :-1], windows[:, 1:]


def train_windows(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(characters, the ones after them) to train on."""
    return _windows(_texts()[0], count, seed)


def test_windows(count: int) -> tuple[np.ndarray, np.ndarray]:
    """The same of other modules; always the same ones."""
    return _windows(_texts()[1], count, seed=0)
