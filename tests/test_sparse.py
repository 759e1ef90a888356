"""Sparse gradients: the result of the dense gradient, repeated rows summed."""

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
from xla_kernels import HAS_SPARSE_XLA_KERNELS

implementations = pytest.mark.parametrize(
    "implementation", ["custom_op", "composed"]
)


CASES = {
    "Adam": {},
    "AdamW": {
        "amsgrad": True,
        "global_clipnorm": 0.5,
        "loss_scale_factor": 4.0,
    },
    "NAdam": {"clipnorm": 0.5, "weight_decay": 0.1},
    "ASGD": {"batch_num": 2, "gradient_accumulation_steps": 2},
    "AveragedSGD": {"t0": 1, "clipvalue": 0.25, "use_ema": True},
}


@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("name", CASES)
@implementations
def test_repeated_rows_equal_the_dense_gradient(
    name, implementation, in_graph, device
):
    sparse = tf.IndexedSlices(
        tf.constant([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]]),
        tf.constant([2, 0, 2]),
        tf.constant([4, 2]),
    )

    def train(gradient: tf.Tensor | tf.IndexedSlices) -> list[np.ndarray]:
        variable = keras.Variable(tf.ones((4, 2)))
        optimizer = getattr(tf_opt, name)(
            0.125, implementation=implementation, **CASES[name]
        )
        optimizer.build([variable])

        # An argument: graph optimization computes a constant otherwise.
        def step(gradient):
            optimizer.apply([gradient], [variable])

        step = tf.function(step) if in_graph else step
        for _ in range(3):
            step(gradient)
        return [v.numpy() for v in (variable, *optimizer.variables)]

    # Graph optimization reorders products, but not where rows are checked: in
    # what is composed their last bits may differ.
    tolerance = 3e-7 if in_graph and implementation == "composed" else 0
    dense = tf.convert_to_tensor(sparse)
    for a, b in zip(train(sparse), train(dense), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=0)


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


def test_an_embedding_trains_as_its_one_hot_form_does():
    tokens = np.array([[1, 1, 2], [5, 1, 0], [2, 2, 2], [3, 4, 3]])
    targets = np.array([[1.0], [0.0], [2.0], [-1.0]])
    by_row = embedding_model(6)
    by_product = keras.Sequential(
        [
            keras.layers.Input((3, 6)),
            keras.layers.Dense(4, use_bias=False),
            *by_row.layers[1:-1],
            keras.layers.Dense(1),
        ]
    )
    by_product.set_weights(by_row.get_weights())
    one_hot = np.eye(6, dtype="float32")[tokens]
    for model, data in ((by_row, tokens), (by_product, one_hot)):
        model.compile(tf_opt.Adam(0.1), "mse", jit_compile=False)
        model.fit(data, targets, epochs=10, batch_size=4, verbose=0)
    for a, b in zip(
        by_row.get_weights(), by_product.get_weights(), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=2e-5)


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
    if HAS_SPARSE_XLA_KERNELS:
        assert fitted.optimizer.implementation_in_use == "custom_op"


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
