"""Every client trains with tf_opt's optimizer as with Keras'.

`make test-clients` runs this, since it needs requirements/clients.txt and
minutes.
"""

from pathlib import Path
from typing import Any

import keras
import keras_rs  # Before a seed is set: importing it draws random numbers.
import numpy as np
import pytest
import tensorflow as tf
import tf_opt

import clients


class Enough(Exception):
    """Ends a training."""


def losses(name: str, contender: str) -> list[float]:
    found = []

    def make() -> keras.optimizers.Optimizer:
        optimizer = clients.make_optimizer(clients.CLIENTS[name], contender)()
        if contender != "Keras":
            return optimizer
        apply = optimizer.apply

        def apply_dense(gradients: list, *variables: Any) -> None:
            # Keras squares repeated rows one by one, tf_opt squares their sum.
            apply(list(map(tf.convert_to_tensor, gradients)), *variables)

        optimizer.apply = apply_dense
        return optimizer

    def done(loss: Any) -> None:
        found.append(float(loss))
        if len(found) == 3:
            raise Enough

    keras.utils.set_random_seed(1)
    with pytest.raises(Enough):
        clients.CLIENTS[name].make(make, done)()
    return found


@pytest.mark.parametrize(
    "name",
    # Keras has no row-wise state.
    [k for k, x in clients.CLIENTS.items() if "row_wise" not in x.options],
)
def test_losses_are_those_with_keras_optimizer(name: str) -> None:
    # Rows of lazy tables miss the second step, unless they catch up.
    client = clients.CLIENTS[name]
    compared = 2 if client.options.get("lazy_mode") is True else 3
    ours = losses(name, "tf_opt")[:compared]
    assert len(set(ours)) == compared
    np.testing.assert_allclose(
        ours, losses(name, client.contenders[0])[:compared], rtol=1e-5
    )


def test_row_wise_adagrad_has_fbgemms_numbers() -> None:
    rows, width, ids = 50, 8, 30
    torch = pytest.importorskip("torch")
    import torch_contenders

    theirs = torch_contenders.fbgemm_tables([(rows, width)], 0.125, 1e-3)
    (weight,) = theirs.split_embedding_weights()
    weight.normal_()
    table = keras.Variable(weight.numpy(), name="embeddings")
    ours = tf_opt.Adagrad(0.125, 0.0, 1e-3, torch_epsilon=True, row_wise=True)
    random = np.random.default_rng(0)
    for _ in range(20):
        drawn = random.integers(0, rows, ids)
        gradient = random.normal(size=(ids, width)).astype(np.float32)
        found = theirs(torch.tensor(drawn), torch.arange(ids + 1))
        found.backward(torch.tensor(gradient))
        ours.apply([tf.IndexedSlices(gradient, drawn)], [table])
    np.testing.assert_allclose(table.numpy(), weight.numpy(), atol=1e-5)


def test_a_kerasrs_table_is_saved_with_its_optimizer(tmp_path: Path) -> None:
    config = keras_rs.layers.TableConfig(
        name="table",
        vocabulary_size=50,
        embedding_dim=8,
        optimizer=tf_opt.Adagrad(0.1, row_wise=True),
        placement="default_device",
    )
    feature = keras_rs.layers.FeatureConfig(
        name="ids", table=config, input_shape=(16, 3), output_shape=(16, 8)
    )
    ids = keras.Input((3,), batch_size=16, dtype="int32")
    embedded = keras_rs.layers.DistributedEmbedding({"ids": feature})(
        {"ids": ids}
    )
    model = keras.Model(ids, keras.layers.Dense(1)(embedded["ids"]))
    # On CPUs KerasRS trains its tables with this one.
    model.compile(tf_opt.Adagrad(0.1, row_wise=True), "mse")
    x = np.random.default_rng(0).integers(0, 50, (64, 3))
    fit = {"x": x, "y": x[:, :1], "batch_size": 16, "shuffle": False}
    model.fit(**fit, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    shapes = [x.shape for x in loaded.optimizer._state.slots[0]]
    assert shapes[0] == (50,)
    losses = [
        each.fit(**fit, verbose=0).history["loss"] for each in (model, loaded)
    ]
    np.testing.assert_allclose(*losses, rtol=1e-6)
