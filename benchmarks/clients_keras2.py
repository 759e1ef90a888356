"""Trainings with packages that need Keras 2, as people write them.

These packages are TensorFlow Recommenders, Probability and GNN. They are
imported where they are needed, because they are optional: see
requirements/clients.txt.
"""

from __future__ import annotations

import importlib
import itertools
import os
from typing import Any

import numpy as np
import sklearn.neighbors
import tensorflow as tf

from fitting import Done, MakeOptimizer, Train, batches_of, digit_images, fit
from gradients import draw_ids
from shapes import SPARSE_WORKLOADS

_TABLE = SPARSE_WORKLOADS["4096-ids-zipf"]
_ROWS, _WIDTH = _TABLE.shapes[0]


def _keras_2() -> Any:
    """Returns tf_keras, and makes it tf.keras, which these packages use."""
    # TensorFlow reads this when tf.keras is first used.
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    return importlib.import_module("tf_keras")


def _pairs() -> tuple[np.ndarray, np.ndarray]:
    """Draws 64 batches of ids of users, and of items."""
    random = np.random.default_rng(0)
    users, items = (
        np.stack(list(itertools.islice(draw_ids(_ROWS, _TABLE, random), 64)))
        for _ in range(2)
    )
    return users, items


def retrieval(make: MakeOptimizer, done: Done) -> Train:
    """Two towers, the sums of 8 rows, tell which of 512 pairs fit."""
    tf_keras = _keras_2()
    import tensorflow_recommenders as tfrs

    class Retrieval(tfrs.Model):
        def __init__(self) -> None:
            super().__init__()
            self.users = tf_keras.layers.Embedding(_ROWS, _WIDTH)
            self.items = tf_keras.layers.Embedding(_ROWS, _WIDTH)
            self.task = tfrs.tasks.Retrieval(temperature=0.1)

        def compute_loss(
            self, inputs: tuple[tf.Tensor, tf.Tensor], training: bool = False
        ) -> tf.Tensor:
            users, items = inputs
            towers = self.users(users), self.items(items)
            return self.task(*(tf.reduce_sum(x, axis=1) for x in towers))

    users, items = (ids.reshape(len(ids), 512, 8) for ids in _pairs())
    data = tf.data.Dataset.from_tensor_slices((users, items)).repeat()
    return fit(Retrieval(), data, make, done, None, tf_keras)


def ranking(make: MakeOptimizer, done: Done) -> Train:
    """Two tables and dense layers tell how users rate items."""
    tf_keras = _keras_2()
    import tensorflow_recommenders as tfrs

    class Ranking(tfrs.Model):
        def __init__(self) -> None:
            super().__init__()
            self.users = tf_keras.layers.Embedding(_ROWS, _WIDTH)
            self.items = tf_keras.layers.Embedding(_ROWS, _WIDTH)
            self.rating = tfrs.layers.blocks.MLP([64, 1])
            self.task = tfrs.tasks.Ranking(tf_keras.losses.MeanSquaredError())

        def compute_loss(
            self, inputs: tuple[tf.Tensor, ...], training: bool = False
        ) -> tf.Tensor:
            users, items, ratings = inputs
            both = tf.concat([self.users(users), self.items(items)], axis=1)
            return self.task(labels=ratings, predictions=self.rating(both))

    users, items = _pairs()
    ratings = np.random.default_rng(1).integers(1, 6, (*users.shape, 1))
    data = tf.data.Dataset.from_tensor_slices((users, items, ratings)).repeat()
    return fit(Ranking(), data, make, done, None, tf_keras)


def dlrm(make: MakeOptimizer, done: Done) -> Train:
    """A DLRM with an optimizer for its tables and one for the rest."""
    tf_keras = _keras_2()
    import tensorflow_recommenders as tfrs

    rows, width, size = 1000, 16, 512

    class Tables(tf_keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.tables = {
                name: tf_keras.layers.Embedding(rows, width)
                for name in ("country", "device", "page")
            }

        def call(self, ids: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            return {
                name: table(ids[name]) for name, table in self.tables.items()
            }

    tables = Tables()
    mlp = tfrs.layers.blocks.MLP
    model = tfrs.experimental.models.Ranking(
        tables, bottom_stack=mlp([32, width], final_activation="relu")
    )
    random = np.random.default_rng(0)
    inputs = {
        "dense_features": random.normal(size=(4096, 13)).astype(np.float32),
        "sparse_features": {
            name: random.integers(rows, size=4096) for name in tables.tables
        },
    }
    data = batches_of(inputs, random.integers(2, size=4096), size=size)

    def make_both() -> Any:
        return tfrs.experimental.optimizers.CompositeOptimizer(
            [
                (make(), lambda: model.embedding_trainable_variables),
                (make(), lambda: model.dense_trainable_variables),
            ]
        )

    return fit(model, data, make_both, done, None, tf_keras)


def autoencoder(make: MakeOptimizer, done: Done) -> Train:
    """A variational autoencoder of digits (TensorFlow Probability)."""
    tf_keras = _keras_2()
    import tensorflow_probability as tfp

    images, _ = digit_images()
    shape = (*images.shape[1:], 1)
    size = 8
    prior = tfp.distributions.MultivariateNormalDiag(tf.zeros(size))
    code = tfp.layers.MultivariateNormalTriL
    layers = tf_keras.layers
    model = tf_keras.Sequential(
        [
            layers.Flatten(input_shape=shape),
            layers.Dense(64, "relu"),
            layers.Dense(code.params_size(size)),
            code(
                size,
                activity_regularizer=tfp.layers.KLDivergenceRegularizer(prior),
            ),
            layers.Dense(64, "relu"),
            layers.Dense(tfp.layers.IndependentBernoulli.params_size(shape)),
            tfp.layers.IndependentBernoulli(shape),
        ]
    )

    def loss(image: tf.Tensor, found: Any) -> tf.Tensor:
        return -found.log_prob(image)

    bits = np.round(images)[..., np.newaxis]
    data = batches_of(bits, bits, size=64)
    return fit(model, data, make, done, loss, tf_keras)


def graph(make: MakeOptimizer, done: Done) -> Train:
    """A graph's nodes are digits with edges to the nearest ones (TF-GNN)."""
    tf_keras = _keras_2()
    import tensorflow_gnn as tfgnn

    images, labels = digit_images()
    pixels = images.reshape(len(images), -1)
    nearest = sklearn.neighbors.NearestNeighbors(n_neighbors=5).fit(pixels)
    neighbors = nearest.kneighbors(return_distance=False)
    edges = tfgnn.Adjacency.from_indices(
        ("digits", neighbors.flatten()),
        ("digits", np.repeat(np.arange(len(pixels)), neighbors.shape[1])),
    )
    whole = tfgnn.GraphTensor.from_pieces(
        node_sets={
            "digits": tfgnn.NodeSet.from_fields(
                sizes=[len(pixels)], features={tfgnn.HIDDEN_STATE: pixels}
            )
        },
        edge_sets={
            "near": tfgnn.EdgeSet.from_fields(
                sizes=[neighbors.size], adjacency=edges
            )
        },
    )
    layers = tf_keras.layers
    inputs = layers.Input(type_spec=whole.spec)
    hidden = inputs
    for _ in range(2):
        messages, state = (layers.Dense(32, "relu") for _ in range(2))
        update = tfgnn.keras.layers.NodeSetUpdate(
            {"near": tfgnn.keras.layers.SimpleConv(messages, "mean")},
            tfgnn.keras.layers.NextStateFromConcat(state),
        )
        hidden = tfgnn.keras.layers.GraphUpdate(node_sets={"digits": update})(
            hidden
        )
    nodes = tfgnn.keras.layers.Readout(node_set_name="digits")(hidden)
    model = tf_keras.Model(inputs, layers.Dense(10)(nodes))
    data = tf.data.Dataset.from_tensors((whole, labels)).repeat()
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return fit(model, data, make, done, loss, tf_keras)
