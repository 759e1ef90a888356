"""The tasks of ParameterServerStrategy: steps with every optimizer."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
import tf_opt  # noqa: F401

from processes import steps
from registry import OPTIMIZERS
from registry import Row


def device(variable: keras.Variable | Row) -> str:
    """Where a variable or a slot is."""
    return getattr(variable, "table", variable).value.device


def serve(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Runs what the coordinator sends, until it is killed."""
    # With the ops, which run where the variables are: tf_opt is imported.
    tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol="grpc",
    ).join()


def coordinate(
    resolver: tf.distribute.cluster_resolver.ClusterResolver,
    folder: pathlib.Path,
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
    for case in steps.CASES:
        key = "_".join(case)
        name, _, features = case
        variables, optimizer = steps.train(*case, steps.PARTS, strategy, call)
        for i, array in enumerate(steps.state(variables, optimizer)):
            results[f"{key}_{i}"] = array
        if features != "bare":
            # Behind the averages and accumulators, which aren't slots.
            continue
        find_slots = OPTIMIZERS[name].find_slots
        slots = find_slots(optimizer, len(variables)).values()
        results[f"{key}_devices"] = [
            list(map(device, each))
            for each in zip(variables, *slots, strict=True)
        ]
    np.savez(folder / "coordinator.npz", **results)


def work(folder: pathlib.Path) -> None:
    """Does the part that TF_CONFIG says."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "chief":
        coordinate(resolver, folder)
    else:
        serve(resolver)
