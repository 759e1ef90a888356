"""One worker of MultiWorkerMirroredStrategy: steps with every optimizer."""

from __future__ import annotations

import pathlib

import numpy as np
import tensorflow as tf

from processes import steps


def work(folder: pathlib.Path) -> None:
    """Saves the states after the last step as <index>.npz."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    worker = strategy.cluster_resolver.task_id
    results = {}
    for case in (*steps.FEATURED, *steps.ON_HOST):
        results |= steps.state(case, *steps.train(*case, [worker], strategy))
    np.savez(folder / f"{worker}.npz", **results)
