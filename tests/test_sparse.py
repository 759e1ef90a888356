"""Sparse gradients: the result of the dense gradient, repeated rows summed."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

implementations = pytest.mark.parametrize(
    "implementation", ["custom_op", "composed"]
)


def repeated_rows(dtype=tf.float32) -> tf.IndexedSlices:
    return tf.IndexedSlices(
        tf.constant([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]], dtype),
        tf.constant([2, 0, 2]),
        tf.constant([4, 2]),
    )


def run(
    gradient,
    steps=3,
    in_graph=False,
    jit_compile=False,
    dtype="float32",
    make=tf_opt.Adam,
    **arguments,
):
    variable = keras.Variable(np.ones((4, 2)), dtype=dtype)
    optimizer = make(0.125, **arguments)
    optimizer.build([variable])

    # An argument: what is constant is computed otherwise by graph optimization.
    def step(gradient: tf.Tensor | tf.IndexedSlices) -> None:
        optimizer.apply([gradient], [variable])

    if in_graph or jit_compile:
        step = tf.function(step, jit_compile=jit_compile)
    for _ in range(steps):
        step(gradient)
    if jit_compile:
        assert optimizer.implementation_in_use == "custom_op"
    return [v.numpy() for v in (variable, *optimizer.variables)]


OPTIONS = [
    {},
    {"amsgrad": True},
    {"clipnorm": 0.5},
    {"global_clipnorm": 0.5},
    {"clipvalue": 0.25},
    {"gradient_accumulation_steps": 2},
    {"loss_scale_factor": 4.0},
    {"use_ema": True},
    {"weight_decay": 0.1},
]


@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@implementations
def test_repeated_rows_equal_the_dense_gradient(
    options, implementation, in_graph, device
):
    arguments = {"implementation": implementation, **options}
    sparse = repeated_rows()
    dense = tf.constant([[3.0, -1.0], [0, 0], [1.5, 2.5], [0, 0]])
    # Graph optimization reorders products, but not where rows are checked: in
    # what is composed their last bits may differ.
    tolerance = 3e-7 if in_graph and implementation == "composed" else 0
    for a, b in zip(
        run(sparse, in_graph=in_graph, **arguments),
        run(dense, in_graph=in_graph, **arguments),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=0)


def test_an_embedding_compiled_by_xla_trains_as_with_keras():
    random = np.random.default_rng(0)
    # No row twice in a batch: Keras squares what is said of it one by one.
    batches = [random.permutation(30)[:24].reshape(8, 3) for _ in range(4)]
    tokens = np.concatenate(batches)
    targets = tokens.mean(axis=1, keepdims=True) / 30

    def train(optimizer: keras.optimizers.Optimizer) -> list[np.ndarray]:
        keras.utils.set_random_seed(1)
        model = keras.Sequential(
            [
                keras.layers.Input((3,)),
                keras.layers.Embedding(30, 4),
                keras.layers.GlobalAveragePooling1D(),
                keras.layers.Dense(1),
            ]
        )
        model.compile(optimizer, "mse", jit_compile=True)
        model.fit(
            tokens, targets, epochs=3, batch_size=8, shuffle=False, verbose=0
        )
        return model.get_weights()

    for a, b in zip(
        train(tf_opt.Adam(0.01, epsilon=1e-7, epsilon_hat=True)),
        train(keras.optimizers.Adam(0.01)),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (tf_opt.NAdam, {}),
        (tf_opt.ASGD, {"batch_num": 2}),
        (tf_opt.AveragedSGD, {"t0": 1}),
    ],
)
@implementations
def test_other_optimizers(make, arguments, implementation):
    dense = tf.constant([[3.0, -1.0], [0, 0], [1.5, 2.5], [0, 0]])
    for a, b in zip(
        run(
            repeated_rows(),
            make=make,
            implementation=implementation,
            **arguments,
        ),
        run(dense, make=make, implementation=implementation, **arguments),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_an_embedding_trains_as_its_one_hot_form_does(jit_compile):
    tokens = np.array([[1, 1, 2], [5, 1, 0], [2, 2, 2], [3, 4, 3]])
    targets = np.array([[1.0], [0.0], [2.0], [-1.0]])

    def train(one_hot: bool) -> np.ndarray:
        keras.utils.set_random_seed(4)
        table = keras.layers.Embedding(6, 3)
        table.build()
        start = table.embeddings.numpy()
        if one_hot:
            first = keras.layers.Dense(3, use_bias=False)
            inputs = keras.layers.Input((3, 6))
            data = np.eye(6, dtype="float32")[tokens]
        else:
            first, inputs, data = table, keras.layers.Input((3,)), tokens
        model = keras.Sequential(
            [
                inputs,
                first,
                keras.layers.GlobalAveragePooling1D(),
                keras.layers.Dense(1, kernel_initializer="ones"),
            ]
        )
        if one_hot:
            first.kernel.assign(start)
        model.compile(tf_opt.Adam(0.1), "mse", jit_compile=jit_compile)
        model.fit(data, targets, epochs=10, batch_size=4, verbose=0)
        return model.get_weights()[0]

    np.testing.assert_allclose(train(False), train(True), atol=2e-5)
