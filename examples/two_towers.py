"""A two-tower model: recommends calls for functions, and is tested on that."""

from __future__ import annotations

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from standard_library import Data

# Of each table of embeddings.
ROWS = 400_000
WIDTH = 64
# Of a function's or a call's features, in training: pairs of words are known by
# heart too soon.
DROPOUT = 0.5
# Divides the cosine of two vectors.
TEMPERATURE = 0.1
BATCH_SIZE = 256
# How many calls are recommended.
TOP = 10


class Score(NamedTuple):
    """How good a model is on functions that it hasn't seen.

    Attributes:
        loss: The cross-entropy, over the whole catalogue.
        recall: The share of missing calls that are among the first TOP.
    """

    loss: float
    recall: float


def _make_tower() -> keras.Model:
    """Makes a vector of length one from the rows of some features."""
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
    """Scores how well functions and calls go together."""

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
        """The functions are the rows, the calls the columns."""
        cosines = tf.matmul(
            self.function_tower(functions, training=training),
            self.call_tower(calls, training=training),
            transpose_b=True,
        )
        return cosines / TEMPERATURE

    def call(
        self, inputs: dict[str, tf.Tensor], training: bool | None = None
    ) -> tf.Tensor:
        """The logits of a batch's calls, for each of its functions."""
        scores = self.scores(inputs["functions"], inputs["calls"], training)
        # A call that many functions make is in many batches, as a wrong answer
        # mostly: its score is corrected for that.
        return scores - inputs["log_frequencies"]


def make_batches(data: Data, seed: int) -> tf.data.Dataset:
    """Batches without end; the same ones for the same seed.

    Args:
        data: What to learn.
        seed: Of their order.

    Returns:
        The model's inputs, and the probability of each call of the batch for
        each function.
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
        # Another pair's call is as right where it is the same one.
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
    """Looks for the missing calls in the whole catalogue."""
    scores = model.scores(data.test.functions, data.catalogue)
    losses = keras.losses.sparse_categorical_crossentropy(
        data.test.calls, scores, from_logits=True
    )
    found = tf.math.in_top_k(data.test.calls, scores, TOP)
    return Score(float(np.mean(losses)), float(np.mean(found)))
