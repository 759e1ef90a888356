"""Training of Keras 2 on several machines with `fit`."""

import functools
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras
import tf_opt.keras2 as tfo

from processes.parameter_server import SHARDED, Strategy, run_task
from small_model import assert_close, checkpoint_of

OPTIONS = {"epsilon": 1e-7, "use_ema": True, "weight_decay": 0.01}


def dataset(*_: Any) -> tf.data.Dataset:
    random = np.random.default_rng(0)
    ids = random.integers(0, SHARDED[0], (64, 3))
    targets = random.normal(size=(64, 1)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((ids, targets))
    # No batch has all rows.
    return data.batch(4).repeat()


def model_with(optimizer: Any) -> tf_keras.Model:
    """Returns a compiled model with an embedding."""
    tf_keras.utils.set_random_seed(1)
    layers = [
        tf_keras.layers.Embedding(*SHARDED, input_length=3),
        tf_keras.layers.Flatten(),
        tf_keras.layers.Dense(1),
    ]
    model = tf_keras.Sequential(layers)
    model.build((None, 3))
    model.compile(optimizer, "mse")
    return model


def train(
    library: Any, data: Any = None, callback: Any = None, **options: Any
) -> tf_keras.Model:
    make = tf_keras.optimizers.Adam
    if library is tfo:
        # It raises an error where no op can run.
        own = {"epsilon_hat": True, "implementation": "custom_op"}
        make = functools.partial(tfo.Adam, **own)
    model = model_with(make(0.125, **(options or OPTIONS)))
    model.fit(
        data or dataset(),
        epochs=2,
        steps_per_epoch=5,
        verbose=0,
        callbacks=[callback] if callback else [],
    )
    return model


def mirrored(folder: pathlib.Path) -> None:
    """A worker of `MultiWorkerMirroredStrategy`."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    for library in (tf_keras, tfo):
        with strategy.scope():
            weights = train(library).get_weights()
        task = strategy.cluster_resolver.task_id
        np.savez(folder / f"{library.__name__}_{task}.npz", *weights)


def coordinate(strategy: Strategy, folder: pathlib.Path) -> None:
    """The chief, which calls `fit`."""
    creator = tf_keras.utils.experimental.DatasetCreator(dataset)
    for library in (tf_keras, tfo):
        with strategy.scope():
            model = train(library, creator)
        path = str(folder / library.__name__)
        np.savez(f"{path}_0.npz", *model.get_weights())
        checkpoint_of(model).write(path)
    inner = model.optimizer.inner_optimizer
    for i, variable in enumerate(inner._state.variables):
        for slot in inner._state.slots_of(i):
            assert slot.value.device == variable.device
    parts = model.layers[0].embeddings.variables
    assert len({part.device for part in parts}) == 2
    average = {"use_ema": True}
    cases = [
        (None, {"lazy_mode": False}),
        (tfo.callbacks.CatchUp(), {"lazy_mode": "catch_up"}),
        (None, average),
        (tfo.callbacks.SwapAveragedWeights(), average),
    ]
    with strategy.scope():
        exact, caught_up, averaged, swapped = (
            train(tfo, creator, callback, **options).get_weights()
            for callback, options in cases
        )
    found, expected = caught_up + swapped, exact + averaged
    assert_close(found, expected, rtol=1e-5, atol=1e-6)


on_servers = functools.partial(run_task, coordinate)
