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


def embedding_model(ids: int) -> keras.Model:
    keras.utils.set_random_seed(4)
    return keras.Sequential(
        [
            keras.layers.Input((3,)),
            keras.layers.Embedding(ids, 4),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1, kernel_initializer="ones"),
        ]
    )


def test_an_embedding_compiled_by_xla_trains_as_with_keras():
    random = np.random.default_rng(0)
    # No row twice in a batch: Keras squares their gradients one by one.
    batches = [random.permutation(30)[:24].reshape(8, 3) for _ in range(4)]
    tokens = np.concatenate(batches)
    targets = tokens.mean(axis=1, keepdims=True) / 30
    weights = []
    for optimizer in (
        tf_opt.Adam(0.01, epsilon=1e-7, epsilon_hat=True),
        keras.optimizers.Adam(0.01),
    ):
        model = embedding_model(30)
        model.compile(optimizer, "mse", jit_compile=True)
        model.fit(
            tokens, targets, epochs=3, batch_size=8, shuffle=False, verbose=0
        )
        weights.append(model.get_weights())
    for a, b in zip(*weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.kernels
@pytest.mark.parametrize("jit_compile", [False, True])
def test_an_embedding_in_fit_equals_a_loop(jit_compile):
    tokens = np.random.default_rng(2).integers(0, 50, (32, 3))
    targets = tokens.sum(axis=1, keepdims=True) / 100
    fitted, looped = models = [embedding_model(50) for _ in "ab"]
    for model in models:
        optimizer = tf_opt.Adam(0.01, lazy_mode=True)
        model.compile(optimizer, "mse", jit_compile=jit_compile)
    fitted.fit(tokens, targets, batch_size=8, shuffle=False, verbose=0)
    for i in range(0, 32, 8):
        with tf.GradientTape() as tape:
            errors = looped(tokens[i : i + 8]) - targets[i : i + 8]
            loss = tf.reduce_mean(errors**2)
        variables = looped.trainable_variables
        gradients = tape.gradient(loss, [x.value for x in variables])
        looped.optimizer.apply(gradients, variables)
    for a, b in zip(fitted.get_weights(), looped.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)
    if jit_compile:
        assert fitted.optimizer.implementation_in_use == "composed"


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
