"""ParameterServerStrategy, four processes: the numbers of one."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from processes import job
from processes import parameter_server
from processes import steps


def test_variables_on_servers_equal_one_process(tmp_path):
    # One test for all: the processes take longer to start than to compute.
    tasks = {"chief": 1, "worker": 1, "ps": 2}
    with job.Job(parameter_server.work, tasks, tmp_path, tmp_path) as processes:
        processes.wait("chief_0")
    result = np.load(tmp_path / "coordinator.npz")
    for lazy_mode in (False, True):
        alone = parameter_server.train_sharded(
            tf.distribute.get_strategy(),
            lambda step, arguments: step(*arguments),
            lazy_mode,
        )
        np.testing.assert_array_equal(result[f"sharded_{lazy_mode}"], alone)
    for case in steps.CASES:
        key = "_".join(case)
        expected = steps.state(
            *steps.train(*case, steps.PARTS, tf.distribute.get_strategy())
        )
        for i, array in enumerate(expected):
            np.testing.assert_array_equal(
                result[f"{key}_{i}"], array, err_msg=f"{key}_{i}"
            )
        if f"{key}_devices" not in result:
            continue
        devices = result[f"{key}_devices"]
        for variable, *slots in devices:
            assert variable.startswith("/job:ps/")
            assert set(slots) == {variable}
        # The embedding is with no other variable of its type.
        assert devices[0, 0] == devices[2, 0] != devices[-1, 0]
