"""MultiWorkerMirroredStrategy, two processes: the numbers of one."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from processes import job
from processes import multi_worker
from processes import steps

WORKERS = ("worker_0", "worker_1")


def test_two_workers_equal_one_process(tmp_path):
    # One test for all: the processes take longer to start than to compute.
    with job.Job(
        multi_worker.work, {"worker": 2}, tmp_path, tmp_path
    ) as workers:
        workers.wait(*WORKERS)
    results = [np.load(tmp_path / f"{worker}.npz") for worker in WORKERS]
    for case in steps.CASES:
        expected = steps.state(
            *steps.train(*case, steps.PARTS, tf.distribute.get_strategy())
        )
        for i, array in enumerate(expected):
            key = "_".join([*case, str(i)])
            for result in results:
                np.testing.assert_array_equal(result[key], array, err_msg=key)
