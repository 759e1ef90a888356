"""One worker of MultiWorkerMirroredStrategy: steps with every optimizer."""

from __future__ import annotations

import pathlib

import numpy as np
import tensorflow as tf

from processes import steps
from registry import OPTIMIZERS


def work(folder: pathlib.Path) -> None:
    """Saves the states after the last step as worker_<index>.npz."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    worker = strategy.cluster_resolver.task_id
    results = {}
    for name in OPTIMIZERS:
        for implementation in steps.IMPLEMENTATIONS:
            states = steps.state(
                *steps.train(name, implementation, [worker], strategy)
            )
            for i, array in enumerate(states):
                results[f"{name}_{implementation}_{i}"] = array
    np.savez(folder / f"worker_{worker}.npz", **results)
