"""The ops for sparse gradients, with random slices: property by property."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from tf_opt.python.ops.calls import merge_slices

from devices import GPU_KERNELS
from op_cases import Launch

pytestmark = pytest.mark.kernels

DTYPES = [tf.float16, tf.bfloat16, tf.float32, tf.float64]


class Table(NamedTuple):
    """What is drawn of one table: any rows, and the seed of its numbers."""

    shape: tuple[int, ...]
    indices: list[int]
    seed: int


def _launch(drawn: list[Table], name: str, dtype: tf.DType) -> Launch:
    slot_dtype = tf.float64 if dtype == tf.float64 else tf.float32
    random = np.random.default_rng(drawn[0].seed)

    def make(like: Any) -> tf.Variable:
        return tf.Variable(tf.cast(random.random(like.shape), slot_dtype))

    launch = Launch(name, [table.shape for table in drawn], make)
    variables = launch.lists["variables"]
    launch.lists["variables"] = [
        tf.Variable(tf.cast(x, dtype)) for x in variables
    ]
    for frame in ("accumulators", "averages"):
        launch.lists[frame] = list(map(make, variables))
    return launch


def _slices(
    drawn: list[Table], dtype: tf.DType, index_dtype: tf.DType
) -> list[tf.IndexedSlices]:
    made = []
    for table in drawn:
        random = np.random.default_rng(table.seed + 5000)
        values = random.normal(size=(len(table.indices), *table.shape[1:]))
        made.append(
            tf.IndexedSlices(
                tf.cast(values, dtype), tf.constant(table.indices, index_dtype)
            )
        )
    return made


def _dense(
    drawn: list[Table], slices: list[tf.IndexedSlices]
) -> list[tf.Tensor]:
    """The sums, by TensorFlow's own op, rounded once."""
    made = []
    for table, each in zip(drawn, slices, strict=True):
        dtype = each.values.dtype
        slot_dtype = tf.float64 if dtype == tf.float64 else tf.float32
        total = tf.math.unsorted_segment_sum(
            tf.cast(each.values, slot_dtype), each.indices, table.shape[0]
        )
        made.append(tf.cast(total, dtype))
    return made


# Around the rule, and its decay.
FRAME = {
    "weight_decay": 0.1,
    "gradient_scale": 0.5,
    "gradient_factors": 0.75,
    "clip_value": 1.5,
    "ema_momentum": 0.9,
}


def for_all(check: Callable[..., None]) -> None:
    """Checks a few tables of any shapes, and rows of them, of all types."""
    # Not imported in all the processes that only collect this test.
    import hypothesis
    from hypothesis import strategies

    @strategies.composite
    def tables(draw: Any) -> list[Table]:
        drawn = []
        for _ in range(draw(strategies.integers(1, 3))):
            rows = draw(strategies.integers(1, 40))
            size = strategies.integers(1, 9)
            inner = draw(strategies.lists(size, max_size=2))
            row = strategies.integers(0, rows - 1)
            indices = draw(strategies.lists(row, max_size=60))
            seed = draw(strategies.integers(0, 1000))
            drawn.append(Table((rows, *inner), indices, seed))
        return drawn

    check = hypothesis.given(
        drawn=tables(),
        dtype=strategies.sampled_from(DTYPES),
        index_dtype=strategies.sampled_from([tf.int32, tf.int64]),
    )(check)
    hypothesis.settings(
        max_examples=40, deadline=None, derandomize=True, database=None
    )(check)()


# One with slots by element, one with a table: the engine's rows know no rule.
@pytest.mark.parametrize("name", ["adam", "asgd"])
def test_rows_that_occur_have_the_bits_of_the_dense_gradient(name):
    def check(drawn, dtype, index_dtype):
        slices = _slices(drawn, dtype, index_dtype)
        # Every other one only accumulates.
        update = bool(drawn[0].seed % 2)
        dense = _launch(drawn, name, dtype)
        before = dense.numpy()
        frame = {**FRAME, "update": update}
        dense.apply(gradients=_dense(drawn, slices), **frame)
        for lazy in (False, True):
            sparse = _launch(drawn, name, dtype)
            sparse.apply(gradients=slices, lazy=lazy, **frame)
            for i, (a, b, old) in enumerate(
                zip(sparse.numpy(), dense.numpy(), before, strict=True)
            ):
                table = drawn[i % len(drawn)]
                occurs = np.isin(np.arange(table.shape[0]), table.indices)
                # Behind the batches of ASGD's table.
                axis = a.ndim - len(table.shape)
                occurs = occurs.reshape([-1] + [1] * (len(table.shape) - 1))
                changes = np.expand_dims(occurs, list(range(axis))) | (not lazy)
                expected = np.where(changes, b, old)
                assert a.tobytes() == expected.tobytes()

    for_all(check)


def test_merged_rows_are_sorted_and_have_the_bits_of_the_dense_gradient():
    def check(drawn, dtype, index_dtype):
        slices = _slices(drawn, dtype, index_dtype)
        # Rows without values, some of which occur.
        more = [
            tf.constant([0, table.shape[0] - 1], index_dtype) for table in drawn
        ]
        counts = [table.shape[0] for table in drawn]
        for accumulated in ((), more):
            merged = merge_slices(slices, counts, accumulated)
            for i, (table, dense) in enumerate(
                zip(drawn, _dense(drawn, slices), strict=True)
            ):
                others = accumulated[i].numpy().tolist() if accumulated else []
                rows = sorted({*table.indices, *others})
                # A GPU fills up, as the host doesn't know how many rows occur.
                entries = len(table.indices) + len(others)
                more = entries - len(rows) if GPU_KERNELS else 0
                found = merged[i].indices
                assert found.dtype == index_dtype
                assert found.numpy().tolist() == rows + more * [
                    index_dtype.max - 1
                ]
                expected = dense.numpy()[rows].tobytes()
                values = merged[i].values.numpy()
                assert values[: len(rows)].tobytes() == expected
                assert values.shape == (len(rows) + more, *table.shape[1:])
                assert not values[len(rows) :].any()

    for_all(check)
