"""Trains one network on two workers with tf_opt.AdamW.

    python examples/multi_worker.py --worker 0 &
    python examples/multi_worker.py --worker 1

The data are scikit-learn's handwritten digits. Each worker is a process with a
copy of the network and processes half of every batch. You may kill the workers
at any time; when started again, they continue from the last checkpoint. To use
two machines, pass both the same `--addresses` and a `--checkpoints` folder that
both can read.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import tempfile
import zlib

# TensorFlow reads this when it is imported.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
import rich.console
import tensorflow as tf
import tf_opt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SEED = 0
# The size of a batch over all workers.
BATCH_SIZE = 64

Data = tuple[np.ndarray, np.ndarray]


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description="Trains one network on two workers with tf_opt.AdamW."
    )
    parser.add_argument(
        "--worker",
        type=int,
        required=True,
        metavar="INDEX",
        help="which of the workers this is",
    )
    parser.add_argument(
        "--addresses",
        nargs="+",
        default=["127.0.0.1:29180", "127.0.0.1:29181"],
        metavar="HOST:PORT",
        help="all workers, the same list for each (default: %(default)s)",
    )
    parser.add_argument(
        "--epochs", type=int, default=10, help="(default: %(default)s)"
    )
    parser.add_argument(
        "--checkpoints",
        type=pathlib.Path,
        default=pathlib.Path("build/demo/multi_worker"),
        metavar="FOLDER",
        help="where checkpoints go (default: %(default)s)",
    )
    arguments = parser.parse_args()
    if not 0 <= arguments.worker < len(arguments.addresses):
        parser.error(
            f"--worker must be in [0, {len(arguments.addresses)}), the number "
            f"of addresses, got {arguments.worker}"
        )
    if arguments.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {arguments.epochs}")
    return arguments


def connect(
    worker: int, addresses: list[str]
) -> tf.distribute.MultiWorkerMirroredStrategy:
    """Waits for the other workers; must come before any use of TensorFlow."""
    others = [a for i, a in enumerate(addresses) if i != worker]
    print(
        f"Worker {worker} waits for the worker at {', '.join(others)} "
        "(to stop it, use kill -9)",
        flush=True,
    )
    os.environ["TF_CONFIG"] = json.dumps(
        {
            "cluster": {"worker": addresses},
            "task": {"type": "worker", "index": worker},
        }
    )
    return tf.distribute.MultiWorkerMirroredStrategy()


def load_data() -> tuple[Data, Data]:
    """Returns (images, labels) for training and for testing."""
    x, y = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        (x.reshape(-1, 8, 8, 1) / 16).astype("float32"),
        y,
        test_size=0.2,
        random_state=SEED,
        stratify=y,
    )
    return (train_x, train_y), (test_x, test_y)


def make_model() -> keras.Model:
    """Makes a small convolutional network."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
    )


def make_batches(
    data: Data, epoch: int, strategy: tf.distribute.Strategy
) -> tf.distribute.DistributedDataset:
    """Returns this worker's share of an epoch's batches.

    An epoch's order depends only on its number, so that training can continue
    from any epoch.
    """
    dataset = tf.data.Dataset.from_tensor_slices(data)
    dataset = dataset.shuffle(len(data[0]), seed=SEED + epoch)
    # All batches have the same size, so `make_step` can divide by it.
    dataset = dataset.batch(BATCH_SIZE, drop_remainder=True)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.DATA
    )
    return strategy.experimental_distribute_dataset(
        dataset.with_options(options)
    )


def make_step(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    strategy: tf.distribute.Strategy,
) -> tf.types.experimental.PolymorphicFunction:
    """Returns a function that trains on a batch and returns its loss."""
    losses = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="none"
    )

    def on_replica(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            each = losses(labels, model(images, training=True))
            # The optimizer sums the replicas' gradients.
            loss = tf.reduce_sum(each) / BATCH_SIZE
        weights = [w.value for w in model.trainable_variables]
        optimizer.apply(tape.gradient(loss, weights), model.trainable_variables)
        return loss

    @tf.function
    def step(batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        return strategy.reduce(
            "SUM", strategy.run(on_replica, args=batch), axis=None
        )

    return step


def accuracy(model: keras.Model, data: Data) -> float:
    """Returns the accuracy; Keras' `evaluate` doesn't run on workers."""
    images, labels = data
    return float(np.mean(np.argmax(model(images), axis=-1) == labels))


def digest(variables: list[keras.Variable]) -> str:
    """Returns a checksum, to see that all workers have the same bits."""
    checksum = 0
    for variable in variables:
        checksum = zlib.crc32(variable.numpy().tobytes(), checksum)
    return f"{checksum:08x}"


def main() -> None:
    """Trains, or continues a training; prints a line per epoch."""
    arguments = parse_arguments()
    worker = arguments.worker
    console = rich.console.Console(soft_wrap=True)
    strategy = connect(worker, arguments.addresses)
    train_data, test_data = load_data()
    keras.utils.set_random_seed(SEED)
    with strategy.scope():
        model = make_model()
        optimizer = tf_opt.AdamW(1e-3, weight_decay=0.01)
        optimizer.build(model.trainable_variables)
        epochs_done = tf.Variable(0)
    checkpoint = tf.train.Checkpoint(
        model=model, optimizer=optimizer, epochs_done=epochs_done
    )
    latest = tf.train.latest_checkpoint(arguments.checkpoints)
    if latest is not None:
        checkpoint.restore(latest).assert_consumed()
        console.print(f"Worker {worker} continues from {latest}")

    step = make_step(model, optimizer, strategy)
    with tempfile.TemporaryDirectory() as thrown_away:
        manager = tf.train.CheckpointManager(
            checkpoint,
            # All workers must save, but only the first one's files are kept.
            arguments.checkpoints if worker == 0 else thrown_away,
            max_to_keep=2,
        )
        for epoch in range(int(epochs_done.numpy()), arguments.epochs):
            losses = [
                float(step(batch))
                for batch in make_batches(train_data, epoch, strategy)
            ]
            epochs_done.assign(epoch + 1)
            manager.save()
            if worker == 0:
                console.print(
                    f"epoch {epoch + 1}: loss {np.mean(losses):.4f}, "
                    f"test accuracy {accuracy(model, test_data):.2%}"
                )
    console.print(
        f"Worker {worker} after {int(epochs_done.numpy())} epochs: test "
        f"accuracy {accuracy(model, test_data):.2%}, checksum of all variables "
        f"{digest([*model.variables, *optimizer.variables])}"
    )


if __name__ == "__main__":
    main()
