"""Training that goes on from its last checkpoint, in one process or in two."""

from __future__ import annotations

import pathlib

import keras
import numpy as np
import tensorflow as tf
import tf_opt

from registry import RULES

STEPS = 150
STEPS_BETWEEN_CHECKPOINTS = 3
BATCHES = 5
BATCH_SIZE = 8


def _make_optimizers() -> list[keras.optimizers.Optimizer]:
    """All that there are, with all kinds of state."""
    rate = keras.optimizers.schedules.ExponentialDecay(0.01, 10, 0.9)
    features = (
        {"learning_rate": rate, "use_ema": True, "ema_momentum": 0.9},
        {"learning_rate": 0.01, "global_clipnorm": 0.5},
    )
    optimizers = []
    for i, under_test in enumerate(RULES.values()):
        # Else the loss would grow without end.
        arguments = {**under_test.thorough, "maximize": False}
        if "batch_num" in arguments:
            arguments["batch_num"] = BATCHES
        optimizers.append(under_test.make(**arguments, **features[i % 2]))
    return optimizers


def _make_model() -> keras.Model:
    return keras.Sequential(
        [
            keras.layers.Input((3,)),
            keras.layers.Dense(7, activation="tanh"),
            keras.layers.Dense(1),
        ]
    )


def _strategy() -> tf.distribute.Strategy:
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if len(resolver.cluster_spec().as_dict()["worker"]) == 1:
        return tf.distribute.get_strategy()
    return tf.distribute.MultiWorkerMirroredStrategy()


def work(folder: pathlib.Path) -> None:
    """Trains to the end, each optimizer a model of its own.

    Once a step is done it adds a line to starts_<worker>.txt, how many had been
    done when it began; in the end it writes all variables into
    final_<worker>.npz.
    """
    strategy = _strategy()
    worker = tf.distribute.cluster_resolver.TFConfigClusterResolver().task_id
    workers = strategy.num_replicas_in_sync
    keras.utils.set_random_seed(3)
    with strategy.scope():
        models = [_make_model() for _ in _make_optimizers()]
        optimizers = _make_optimizers()
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.build(model.trainable_variables)
    (asgd,) = (x for x in optimizers if isinstance(x, tf_opt.ASGD))

    chiefs_folder = folder / "checkpoints"
    checkpoint = tf.train.Checkpoint(models=models, optimizers=optimizers)
    manager = tf.train.CheckpointManager(
        checkpoint,
        # Every worker takes part in saving, but only the chief's counts.
        chiefs_folder if worker == 0 else folder / f"unused_{worker}",
        max_to_keep=2,
    )
    latest = tf.train.latest_checkpoint(chiefs_folder)
    if latest is not None:
        checkpoint.restore(latest).assert_consumed()

    random = np.random.default_rng(4)
    x = random.standard_normal((BATCHES, BATCH_SIZE, 3)).astype("float32")
    y = np.sin(x).sum(-1, keepdims=True)

    def on_replica(inputs: tf.Tensor, labels: tf.Tensor) -> None:
        for model, optimizer in zip(models, optimizers, strict=True):
            with tf.GradientTape() as tape:
                errors = tf.square(model(inputs) - labels)
                loss = tf.reduce_sum(errors) / BATCH_SIZE
            weights = model.trainable_variables
            optimizer.apply(
                tape.gradient(loss, [w.value for w in weights]), weights
            )

    @tf.function
    def step(inputs: tf.Tensor, labels: tf.Tensor) -> None:
        strategy.run(on_replica, args=(inputs, labels))

    done = int(asgd.iterations.numpy())
    for number in range(done, STEPS):
        epoch, batch = divmod(number, BATCHES)
        if batch == 0:
            order = np.random.default_rng([5, epoch]).permutation(BATCHES)
            asgd.batch_order = order
        index = int(asgd.batch_index)
        step(x[index, worker::workers], y[index, worker::workers])
        if number == done:
            with (folder / f"starts_{worker}.txt").open("a") as starts:
                starts.write(f"{done}\n")
        if (number + 1) % STEPS_BETWEEN_CHECKPOINTS == 0:
            manager.save()

    variables = [
        variable
        for each in (*models, *optimizers)
        for variable in each.variables
    ]
    np.savez(folder / f"final_{worker}.npz", *[v.numpy() for v in variables])
