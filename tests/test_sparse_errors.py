"""Sparse gradients that don't fit: the error names the table."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt
from tf_opt.python.ops.calls import measure_gradients, merge_slices
from tf_opt.python.optimizers.values import variables as access

from devices import GPU_KERNELS, assert_refused
from op_cases import OPS, Launch
from small_model import assert_same
from trajectory import RUNS

pytestmark = pytest.mark.kernels

ROWS, WIDTH = 10, 3


def _table() -> keras.Variable:
    return keras.Variable(tf.ones((ROWS, WIDTH)), name="table")


WRONG = {
    "more values": (np.ones((2, WIDTH)), [1], "one row of it for each"),
    "other width": (np.ones((1, WIDTH + 1)), [1], "one row of it for each"),
    "a matrix of indices": (np.ones((1, WIDTH)), [[1]], "one row of it"),
    "real indices": (np.ones((1, WIDTH)), [1.0], "must be integers"),
}


@pytest.mark.parametrize("lazy_mode", [False, True])
@pytest.mark.parametrize("case", WRONG)
def test_slices_that_do_not_fit_name_the_table(case, lazy_mode):
    values, indices, message = WRONG[case]
    table = _table()
    before = table.numpy()
    slices = tf.IndexedSlices(
        tf.constant(values, tf.float32), tf.constant(indices)
    )
    with pytest.raises(ValueError, match=f"`table`.*{message}"):
        tf_opt.Adam(0.1, lazy_mode=lazy_mode).apply([slices], [table])
    np.testing.assert_array_equal(table.numpy(), before)


def test_a_length_that_is_known_late_names_the_table():
    table = _table()
    optimizer = tf_opt.Adam(0.1, lazy_mode=True)
    optimizer.build([table])

    @tf.function
    def step(values: tf.Tensor, indices: tf.Tensor) -> None:
        slices = tf.IndexedSlices(tf.ones((values, WIDTH)), tf.range(indices))
        optimizer.apply([slices], [table])

    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"of `?table`?\)? must have one row",
    ):
        step(tf.constant(2), tf.constant(1))


def test_a_number_has_no_rows():
    number = keras.Variable(1.0)
    slices = tf.IndexedSlices(tf.ones([1]), tf.constant([0]))
    with pytest.raises(ValueError, match="has no rows"):
        tf_opt.Adam(0.1, lazy_mode=True).apply([slices], [number])


# Casts make the last two of NaNs and of numbers that are too large.
@pytest.mark.parametrize("wrong", [ROWS, -1, -(2**63), 2**63 - 1])
@pytest.mark.parametrize(
    ("given", "options"),
    [
        ("indices", {"lazy_mode": False}),
        ("indices", {"lazy_mode": True}),
        # MergeSlices sees the rows first.
        ("indices", {"lazy_mode": True, "clipnorm": 1.0}),
        ("indices", {"lazy_mode": False, "clipnorm": 1.0}),
        ("indices", {"gradient_accumulation_steps": 2}),
        ("accumulated_rows", {"lazy_mode": {"table": "catch_up"}}),
    ],
    ids=str,
)
def test_a_row_that_a_table_lacks(
    given, options, wrong, how, device, monkeypatch
):
    # As on a GPU, where only the op checks rows that are to catch up.
    monkeypatch.setattr(access, "on_gpu", lambda _: True)
    tables = [_table(), keras.Variable(tf.ones((7, WIDTH)), name="table_2")]
    optimizer = tf_opt.Adam(0.1, implementation="custom_op", **options)
    optimizer.build(tables)
    values = tf.ones((2, WIDTH))

    @RUNS[how]
    def step(row: tf.Tensor) -> None:
        rows = tf.stack([tf.constant(3, tf.int64), row])
        if given == "accumulated_rows":
            optimizer.catch_up(tables[0], rows)
        else:
            slices = tf.IndexedSlices(values, rows)
            right = tf.IndexedSlices(values, tf.constant([4, 5], tf.int64))
            optimizer.apply([slices, right], tables)

    right, wrong = tf.constant([4, wrong], tf.int64)
    step(right)
    every = [x for x in [*tables, *optimizer.variables] if x.shape.rank]
    before = [x.numpy() for x in every]
    assert_refused(
        lambda: step(wrong),
        device,
        rf"`{given}\[0\]` must be in \[0, {ROWS}\).* got {wrong}",
        table="table",
        next_step=lambda: step(right),
    )
    assert_same(every, before)
    for _ in range(2):
        step(right)
    if given == "indices":
        for table, old in zip(tables, before, strict=False):
            assert (table.numpy() != old)[4].all()


# ---- The ops. ----


def test_tables_that_cannot_be_have_no_rows(how):
    slices = [tf.IndexedSlices(tf.ones((1, 2)), tf.constant([0]))]
    for counts, message in (
        # A GPU's kernel begins with the number, and others with the rows.
        ([-1], r"`indices\[0\]` must be in \[0, -1\)|`variables\[0\]` .* -1"),
        ([3, 3], "`table_rows` must have one element for each of the 1"),
    ):
        with pytest.raises(
            (ValueError, tf.errors.InvalidArgumentError), match=message
        ):
            RUNS[how](lambda counts=counts: merge_slices(slices, counts))()


@pytest.mark.parametrize(
    "rows",
    # A GPU's kernel can't see the rows, only how many there are.
    [[0], *([] if GPU_KERNELS else [[1, 1], [0, ROWS], [-1, 0], [1, 0]])],
)
def test_rows_to_measure_must_be_those_of_a_merged_gradient(rows):
    accumulator = tf.Variable(tf.zeros((ROWS, WIDTH)))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"`rows\[0\]` must be ascending"
    ):
        measure_gradients([tf.ones((2, WIDTH))], [accumulator], rows=[rows])
    with pytest.raises(tf.errors.InvalidArgumentError, match="`accumulators`"):
        measure_gradients([tf.ones((2, WIDTH))], rows=[rows])


def test_an_empty_table_that_is_too_wide_for_its_gradient():
    slots = {x: [tf.Variable(tf.zeros((0, 2**61)))] for x in ("m", "v")}
    table = tf.Variable(tf.zeros((0, 2**61)))
    slices = tf.IndexedSlices(tf.ones((8, 1)), tf.zeros(8, tf.int64))
    with pytest.raises(tf.errors.InvalidArgumentError, match="one row of"):
        OPS["adam"].apply(
            variables=[table], gradients=[slices], step=1, **slots
        )


@pytest.mark.parametrize("sparse", [False, True])
def test_a_table_of_batches_with_impossible_rows(sparse):
    launch = Launch("asgd", [(3, 2)])
    launch.lists["y"] = [tf.Variable(tf.zeros((0, 2**40, 2**40)))]
    if sparse:
        launch.gradients = [tf.IndexedSlices(tf.ones((3, 2)), tf.range(3))]
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"`y\[0\]` must hold rows"
    ):
        launch.apply()
