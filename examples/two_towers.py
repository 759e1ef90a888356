"""Two-tower model that recommends calls for functions, and its test."""

from __future__ import annotations

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from standard_library import Data

# The shape of each embedding table.
ROWS = 400_000
WIDTH = 64
# Part of the features to drop in training. Otherwise the model overfits to
# pairs of words.
DROPOUT = 0.5
# Divides the cosine of two vectors.
TEMPERATURE = 0.1
BATCH_SIZE = 256
# The number of recommended calls.
TOP = 10


class Score(NamedTuple):
    """Score of a model on functions that it hasn't seen.

    Attributes:
        loss: The cross-entropy over the whole catalogue.
        recall: The share of missing calls among the first TOP.
    """

    loss: float
    recall: float


def _make_tower() -> keras.Model:
    """Makes a network from the rows of features to a vector of length 1."""
    return keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(ROWS, WIDTH, mask_zero=True),
            keras.layers.Dropout(DROPOUT, noise_shape=(None, None, 1)),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(2 * WIDTH, activation="relu"),
            keras.layers.Dense(WIDTH),
            keras.layers.UnitNormalization(),
        ]
    )


class TwoTowers(keras.Model):
    """Model that scores how well functions and calls match."""

    def __init__(self) -> None:
        super().__init__()
        self.function_tower = _make_tower()
        self.call_tower = _make_tower()

    def scores(
        self,
        functions: tf.Tensor,
        calls: tf.Tensor,
        training: bool | None = None,
    ) -> tf.Tensor:
        """Returns the scores, with a row per function and a column per call."""
        cosines = tf.matmul(
            self.function_tower(functions, training=training),
            self.call_tower(calls, training=training),
            transpose_b=True,
        )
        return cosines / TEMPERATURE

    def call(
        self, inputs: dict[str, tf.Tensor], training: bool | None = None
    ) -> tf.Tensor:
        """Returns the logits of a batch's calls for each of its functions."""
        scores = self.scores(inputs["functions"], inputs["calls"], training)
        # Frequent calls are in many batches, mostly as wrong answers. The
        # frequencies correct for that.
        return scores - inputs["log_frequencies"]


def make_batches(data: Data, seed: int | None) -> tf.data.Dataset:
    """Makes an endless dataset of batches.

    Args:
        data: The data set.
        seed: The seed of the batches' order; None chooses one.

    Returns:
        Batches of the model's inputs and, for each function, the probabilities
        of the batch's calls.
    """
    pairs = len(data.train.calls)
    counts = np.bincount(data.train.calls, minlength=len(data.catalogue))
    log_frequencies = tf.math.log(tf.constant(counts / pairs, tf.float32))
    functions, calls = map(tf.constant, data.train)
    catalogue = tf.constant(data.catalogue)

    def gather(batch: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        numbers = tf.gather(calls, batch)
        inputs = {
            "functions": tf.gather(functions, batch),
            "calls": tf.gather(catalogue, numbers),
            "log_frequencies": tf.gather(log_frequencies, numbers),
        }
        # Several pairs of a batch may have the same call.
        right = tf.cast(numbers[:, tf.newaxis] == numbers, tf.float32)
        return inputs, right / tf.reduce_sum(right, axis=1, keepdims=True)

    return (
        tf.data.Dataset.range(pairs)
        .shuffle(pairs, seed=seed)
        .repeat()
        .batch(BATCH_SIZE)
        .map(gather)
        .prefetch(1)
    )


def test(model: TwoTowers, data: Data) -> Score:
    """Tests a model, which ranks all calls of the catalogue."""
    scores = model.scores(data.test.functions, data.catalogue)
    losses = keras.losses.sparse_categorical_crossentropy(
        data.test.calls, scores, from_logits=True
    )
    found = tf.math.in_top_k(data.test.calls, scores, TOP)
    return Score(float(np.mean(losses)), float(np.mean(found)))
