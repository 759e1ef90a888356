"""Trains a recommender of Keras 2 on parameter servers, with `fit`.

    python examples/keras2_parameter_servers.py [--epochs N]

It starts two workers and two parameter servers on this machine and trains the
two towers of two_towers.py on their data. Each server holds half of each
embedding table and of the optimizer's state, and updates the rows that occur
there. The workers don't wait for each other, so no run is like another.

On several machines, set TF_CONFIG on each, as for any ParameterServerStrategy,
and run this on all of them, last on the chief:

    TF_CONFIG='{"cluster": {"chief": ["host0:2222"],
      "worker": ["host1:2222", "host2:2222"], "ps": ["host3:2222"]},
      "task": {"type": "chief", "index": 0}}'
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

# TensorFlow reads this when it is imported.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import common
import standard_library
import tensorflow as tf
import tf_keras
import tf_opt.keras2 as tfo
import two_towers

TASKS = {"chief": 1, "worker": 2, "ps": 2}
# The shape of each embedding table.
ROWS = 100_000
WIDTH = 32
STEPS_PER_EPOCH = 75
# Chooses the functions to test with.
SEED = 0

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver


def serve() -> None:
    """Is a worker or a parameter server until the process is killed."""
    # Servers run tf_opt's ops: they must import it, as this file does.
    tf.distribute.Server(
        resolver().cluster_spec(),
        job_name=resolver().task_type,
        task_index=resolver().task_id,
        protocol="grpc",
    ).join()


def run_cluster() -> int:
    """Runs all tasks as processes; returns the chief's exit status."""
    with contextlib.ExitStack() as stack:
        # All at once, so that the ports differ.
        ports = {
            kind: [
                stack.enter_context(socket.create_server(("127.0.0.1", 0)))
                for _ in range(count)
            ]
            for kind, count in TASKS.items()
        }
        cluster = {
            kind: [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
            for kind, sockets in ports.items()
        }
    tasks = []
    # Who is asked to stop still stops the tasks.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        for kind, count in TASKS.items():
            for index in range(count):
                task = {"type": kind, "index": index}
                config = json.dumps({"cluster": cluster, "task": task})
                tasks.append(
                    subprocess.Popen(
                        [sys.executable, __file__, *sys.argv[1:]],
                        env=os.environ | {"TF_CONFIG": config},
                    )
                )
        return tasks[0].wait()
    finally:
        for task in tasks:
            task.kill()
            task.wait()


def make_tower() -> tf_keras.Model:
    """Makes a network from the rows of features to a vector of length 1."""
    return tf_keras.Sequential(
        [
            tf_keras.layers.Embedding(ROWS, WIDTH, mask_zero=True),
            tf_keras.layers.GlobalAveragePooling1D(),
            tf_keras.layers.Dense(2 * WIDTH, activation="relu"),
            tf_keras.layers.Dense(WIDTH),
            tf_keras.layers.UnitNormalization(),
        ]
    )


class Retrieval(tf_keras.Model):
    """Model that scores how well the functions and calls of a batch match."""

    def __init__(self) -> None:
        super().__init__()
        self.function_tower = make_tower()
        self.call_tower = make_tower()

    def scores(self, functions: tf.Tensor, calls: tf.Tensor) -> tf.Tensor:
        """Returns the scores, with a row per function and a column per call."""
        cosines = tf.matmul(
            self.function_tower(functions),
            self.call_tower(calls),
            transpose_b=True,
        )
        return cosines / two_towers.TEMPERATURE

    def call(self, inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        """Returns the logits of a batch's calls for each of its functions."""
        scores = self.scores(inputs["functions"], inputs["calls"])
        return scores - inputs["log_frequencies"]


def train(data: standard_library.Data, epochs: int) -> Retrieval:
    """Trains on the cluster; returns the model, whose tables are split."""
    strategy = tf.distribute.ParameterServerStrategy(
        resolver(),
        # Splits the tables over the servers, and nothing smaller.
        variable_partitioner=(
            tf.distribute.experimental.partitioners.MinSizePartitioner(
                max_shards=resolver().cluster_spec().num_tasks("ps")
            )
        ),
    )
    with strategy.scope():
        model = Retrieval()
        model.compile(
            tfo.Adam(3e-3, epsilon=1e-7, epsilon_hat=True, lazy_mode=True),
            tf_keras.losses.CategoricalCrossentropy(from_logits=True),
        )
        # Each worker makes a dataset, with an order of its own.
        batches = tf_keras.utils.experimental.DatasetCreator(
            lambda _: two_towers.make_batches(data, seed=None)
        )
    report = tf_keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: print(
            f"epoch {epoch + 1}: loss {logs['loss']:.3f}", flush=True
        )
    )
    model.fit(
        batches,
        epochs=epochs,
        steps_per_epoch=STEPS_PER_EPOCH,
        callbacks=[report],
        verbose=0,
    )
    return model


def main() -> None:
    """Trains; prints a line per epoch, and the recall of the model."""
    arguments = common.parse_arguments(__doc__.partition("\n")[0], epochs=2)
    if "TF_CONFIG" not in os.environ:
        sys.exit(run_cluster())
    if resolver().task_type != "chief":
        serve()
    data = standard_library.load_data(ROWS, SEED)
    model = train(data, arguments.epochs)
    for part in model.function_tower.weights[:2]:
        print(f"on {part.device}: {part.shape} of a table")
    # Files have whole tables, for one process to read.
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder, "weights"))
        model.save_weights(path)
        alone = Retrieval()
        # The file has the optimizer's state, too.
        alone.load_weights(path).expect_partial()
        score = two_towers.test(alone, data)
    print(f"test: loss {score.loss:.3f}, recall {score.recall:.1%}")


if __name__ == "__main__":
    main()
