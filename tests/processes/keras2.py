"""Training of Keras 2 on several machines with `fit`."""

import functools
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras
import tf_opt.keras2 as tfo

from processes.parameter_server import SHARDED, Resolver, partition, run_task

OPTIONS = {"use_ema": True, "weight_decay": 0.01}


def dataset(*_: Any) -> tf.data.Dataset:
    random = np.random.default_rng(0)
    ids, targets = (
        random.integers(0, SHARDED[0], (64, 3)),
        random.normal(size=(64, 1)),
    )
    data = tf.data.Dataset.from_tensor_slices((ids, targets.astype("float32")))
    return data.batch(16).repeat()


def train(optimizer: Any, data: Any = None) -> tf_keras.Model:
    layers = [
        tf_keras.layers.Embedding(*SHARDED, "ones", input_length=3),
        tf_keras.layers.Flatten(),
        tf_keras.layers.Dense(1, kernel_initializer="ones"),
    ]
    model = tf_keras.Sequential(layers)
    model.build((None, 3))
    model.compile(optimizer, "mse")
    model.fit(data or dataset(), epochs=2, steps_per_epoch=5, verbose=0)
    return model


def make(library: Any) -> Any:
    if library is tf_keras:
        return tf_keras.optimizers.Adam(0.125, **OPTIONS)
    # It raises an error where no op can run.
    return tfo.Adam(
        0.125,
        epsilon=1e-7,
        epsilon_hat=True,
        implementation="custom_op",
        **OPTIONS,
    )


def save(model: tf_keras.Model, path: pathlib.Path) -> None:
    np.savez(path, *model.get_weights())


def mirrored(folder: pathlib.Path) -> None:
    """A worker of `MultiWorkerMirroredStrategy`."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    for library in (tf_keras, tfo):
        with strategy.scope():
            model = train(make(library))
        task = strategy.cluster_resolver.task_id
        save(model, folder / f"{library.__name__}_{task}.npz")


def coordinate(resolver: Resolver, folder: pathlib.Path) -> None:
    """The chief of `ParameterServerStrategy`, which calls `fit`."""
    strategy = tf.distribute.ParameterServerStrategy(
        resolver, variable_partitioner=partition
    )
    for library in (tf_keras, tfo):
        with strategy.scope():
            creator = tf_keras.utils.experimental.DatasetCreator(dataset)
            model = train(make(library), creator)
        save(model, folder / f"{library.__name__}_0.npz")
        path = str(folder / library.__name__)
        tf.train.Checkpoint(model=model, optimizer=model.optimizer).write(path)
    inner = model.optimizer.inner_optimizer
    for i, variable in enumerate(inner._state.variables):
        for slot in inner._state.slots_of(i):
            assert slot.value.device == variable.device
    parts = model.layers[0].embeddings.variables
    assert len({part.device for part in parts}) == 2


on_servers = functools.partial(run_task, coordinate)
