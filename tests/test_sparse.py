"""Embedding tables: training, readers beside it, and no copies."""

from __future__ import annotations

import resource
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

from devices import needs_sparse_kernels
from devices import page_faults


@pytest.mark.parametrize(
    ("clipping", "theirs", "ours"),
    [
        ({"clipnorm": 1.0}, 1.0 / np.sqrt(2.0), 0.5),
        ({"global_clipnorm": 1.0}, 1.0 / np.sqrt(2.0), 0.5),
        ({"clipvalue": 0.25}, 0.25, 0.125),
    ],
)
def test_repeated_rows_are_clipped_as_a_sum_and_by_keras_before(
    clipping, theirs, ours
):
    # What is left of each of two slices of 1.
    slices = tf.IndexedSlices(tf.ones((2, 1)), tf.constant([0, 0]), [3, 1])
    for module, left in ((keras.optimizers, theirs), (tf_opt, ours)):
        table = tf.Variable(tf.zeros((3, 1)))
        module.SGD(1.0, **clipping).apply([slices], [table])
        assert table.numpy()[0, 0] == pytest.approx(-2 * left)


@pytest.mark.kernels
@needs_sparse_kernels
def test_a_gather_beside_steps_never_sees_half_of_one():
    # All elements stay equal from step to step.
    table = tf.Variable(tf.zeros([4096, 16]))
    optimizer = tf_opt.Adam(0.01, lazy_mode=True)
    optimizer.build([table])
    rows = tf.range(4096)
    slices = tf.IndexedSlices(tf.ones([4096, 16]), rows)
    stop = threading.Event()
    wrong = []
    seen = set()

    def gather() -> None:
        while not stop.is_set():
            values = tf.gather(table, rows).numpy()
            seen.add(float(values[0, 0]))
            if (values != values[0, 0]).any():
                wrong.append(values)

    threads = [threading.Thread(target=gather) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        optimizer.apply([slices], [table])
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(seen) > 3


@pytest.mark.kernels
def test_the_table_is_not_copied_where_it_is_gathered_from():
    rows, width = 2**20, 16
    table_pages = rows * width * 4 // resource.getpagesize()
    table = tf.Variable(tf.ones([rows, width]))
    optimizer = tf_opt.Adam(0.1, lazy_mode=True)
    optimizer.build([table])

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, [1, 2, 1]))
        optimizer.apply(tape.gradient(loss, [table]), [table])

    step()
    # A copy would touch each of its pages for the first time.
    assert page_faults(step) < table_pages / 4
    assert (table.numpy()[[1, 2]] < 1).all()
