"""The tasks of ParameterServerStrategy: steps with every optimizer."""

import functools
import pathlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tf_opt

from processes import steps

SHARDED = (12, 2)
Strategy = tf.distribute.ParameterServerStrategy


def partition(shape: tf.TensorShape, dtype: tf.DType) -> list[int]:
    """Shards only the large table, over both servers."""
    if shape.as_list() != list(SHARDED):
        return [1] * shape.rank
    partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner
    return partitioner(2)(shape, dtype)


def train_sharded(
    strategy: tf.distribute.Strategy,
    call: Callable[[Callable[..., None], tuple], None],
    lazy_mode: bool,
) -> np.ndarray:
    with strategy.scope():
        table = tf.Variable(tf.ones(SHARDED), name="table")
        shards = list(getattr(table, "variables", [table]))
        optimizer = tf_opt.Adam(0.125, amsgrad=True, lazy_mode=lazy_mode)
        optimizer.build(shards)

    def on_replica(ids: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            rows = tf.nn.embedding_lookup(table, ids)
            loss = tf.reduce_sum(rows * [1.0, -0.5])
        optimizer.apply(tape.gradient(loss, shards), shards)

    @tf.function
    def step(ids: tf.Tensor) -> None:
        strategy.run(on_replica, args=(ids,))

    # Rows of both shards, some twice; in the last step of one shard only.
    for number, rows in enumerate((12, 12, 6)):
        ids = np.random.default_rng(number).integers(0, rows, 8)
        call(step, (tf.constant(ids),))
    return np.concatenate([shard.numpy() for shard in shards])


def coordinate(strategy: Strategy, folder: pathlib.Path) -> None:
    """Saves the states after the last step as coordinator.npz.

    With, for each optimizer, where its variables are, each with its slots.
    """
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    def call(step: Callable[..., None], arguments: tuple) -> None:
        coordinator.schedule(step, args=arguments)
        coordinator.join()

    results = {}
    for case in steps.FEATURED:
        variables, optimizer = steps.train(*case, steps.PARTS, strategy, call)
        results |= steps.state(case, variables, optimizer)
        results["_".join([*case, "devices"])] = [
            [x.value.device for x in (variable, *optimizer._state.slots_of(i))]
            for i, variable in enumerate(variables)
        ]
        results["_".join([*case, "memory"])] = [
            [name, sum(kinds.values())]
            for name, kinds in sorted(optimizer.memory().items())
        ]
    for lazy_mode in (False, True):
        results[f"sharded_{lazy_mode}"] = train_sharded(
            strategy, call, lazy_mode
        )
    np.savez(folder / "coordinator.npz", **results)


def run_task(
    chief: Callable[[Strategy, pathlib.Path], None], folder: pathlib.Path
) -> None:
    """Calls `chief`, or is another task until the process is killed."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "chief":
        chief(Strategy(resolver, variable_partitioner=partition), folder)
    else:
        # With the ops, which run where the variables are: tf_opt is imported.
        tf.distribute.Server(
            resolver.cluster_spec(),
            job_name=resolver.task_type,
            task_index=resolver.task_id,
            protocol="grpc",
        ).join()


work = functools.partial(run_task, coordinate)
