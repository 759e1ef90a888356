"""One worker of MultiWorkerMirroredStrategy: steps with every optimizer."""

from __future__ import annotations

import faulthandler

import job

# Should it be left alone, it ends itself, and says where it was.
faulthandler.dump_traceback_later(job.TIME_LIMIT, exit=True)

import numpy as np
import tensorflow as tf

import steps
from registry import OPTIMIZERS


def main() -> None:
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
    np.savez(f"worker_{worker}.npz", **results)


if __name__ == "__main__":
    main()
