"""Gradients to measure with: dense, or of some rows of embedding tables."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from shapes import Shape, Workload

# A part of uniformly drawn ids repeats others of its batch.
_REPEATED = 0.1
_ZIPF_EXPONENT = 1.1

# All batches together have this many ids for each table, within bounds, so that
# a row has left the caches when its batch comes again.
_IDS_OF_ALL_BATCHES = 2**18
_MOST_BATCHES = 256
_FEWEST_BATCHES = 8


class Batch(NamedTuple):
    """The gradients of one step; of a table a row for each id."""

    values: list[tf.Tensor]
    ids: list[tf.Tensor]  # For each table; empty if gradients are dense.

    @property
    def rows(self) -> list[tf.Tensor]:
        """The rows among the ids of each table, sorted and unique."""
        return [tf.constant(np.unique(ids)) for ids in self.ids]


def random(shape: Shape, dtype: str = "float32") -> tf.Tensor:
    """Draws values like a model's; zeros may be faster or slower."""
    return tf.cast(tf.random.normal(shape, stddev=0.02), dtype)


def draw_ids(
    rows: int, workload: Workload, generator: np.random.Generator
) -> Iterator[np.ndarray]:
    """Draws the ids that one batch after the other looks up in a table."""
    if workload.zipf:
        weights = np.arange(1, rows + 1) ** -_ZIPF_EXPONENT
        cumulative = np.cumsum(weights / weights.sum())
        # Frequent rows may be anywhere in the table.
        row_of_rank = generator.permutation(rows)
        while True:
            places = generator.random(workload.ids)
            ranks = np.searchsorted(cumulative, places)
            # The last sum may round to less than 1.
            ids = row_of_rank[np.minimum(ranks, rows - 1)]
            yield ids.astype(np.int32)
    distinct = min(rows, round((1 - _REPEATED) * workload.ids))
    while True:
        chosen = generator.choice(rows, distinct, replace=False)
        repeated = generator.choice(chosen, workload.ids - distinct)
        ids = generator.permutation(np.concatenate([chosen, repeated]))
        yield ids.astype(np.int32)


def draw_batches(workload: Workload, dtype: str) -> list[Batch]:
    """Draws one batch of dense gradients, or several of sparse ones."""
    if not workload.ids:
        return [Batch([random(shape, dtype) for shape in workload.shapes], [])]
    generator = np.random.default_rng(0)
    drawn = zip(
        *(draw_ids(rows, workload, generator) for rows, _ in workload.shapes),
        strict=True,
    )
    count = _IDS_OF_ALL_BATCHES // workload.ids
    count = max(_FEWEST_BATCHES, min(count, _MOST_BATCHES))
    return [
        Batch(
            [random((workload.ids, width)) for _, width in workload.shapes],
            list(map(tf.constant, ids)),
        )
        for ids in itertools.islice(drawn, count)
    ]
