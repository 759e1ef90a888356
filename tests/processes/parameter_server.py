"""A server or the coordinator of ParameterServerStrategy.

The coordinator takes steps with every optimizer and ends the job.
"""

from __future__ import annotations

import faulthandler

import job

# Should it be left alone, it ends itself, and says where it was.
faulthandler.dump_traceback_later(job.TIME_LIMIT, exit=True)

import os
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
import tf_opt

import steps
from registry import OPTIMIZERS
from registry import Row


def device(variable: keras.Variable | Row) -> str:
    """Where a variable or a slot is."""
    return getattr(variable, "table", variable).value.device


def serve(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Runs what the coordinator sends, until it is killed."""
    # Loads the ops: they run where the variables are.
    tf_opt.build_info()
    tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol="grpc",
    ).join()


def coordinate(
    resolver: tf.distribute.cluster_resolver.ClusterResolver,
) -> None:
    """Saves the states after the last step as coordinator.npz.

    With, for each optimizer, where its variables are, each with its slots.
    """
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    def call(step: Callable[..., None], arguments: tuple) -> None:
        coordinator.schedule(step, args=arguments)
        coordinator.join()

    results = {}
    for name, under_test in OPTIMIZERS.items():
        for implementation in steps.IMPLEMENTATIONS:
            key = f"{name}_{implementation}"
            variables, optimizer = steps.train(
                name, implementation, steps.PARTS, strategy, call
            )
            for i, array in enumerate(steps.state(variables, optimizer)):
                results[f"{key}_{i}"] = array
            slots = under_test.find_slots(optimizer, len(variables)).values()
            results[f"{key}_devices"] = [
                list(map(device, each))
                for each in zip(variables, *slots, strict=True)
            ]
    np.savez("coordinator.npz", **results)
    # The strategy's threads would wait for servers that are about to end.
    os._exit(0)


def main() -> None:
    """Does the part that TF_CONFIG says."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "chief":
        coordinate(resolver)
    else:
        serve(resolver)


if __name__ == "__main__":
    main()
