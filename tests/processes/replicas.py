"""Three replicas on three logical CPUs: state beside them, on one, in shards.

A process of its own, since a process can't have strategies of two sizes.
"""

from __future__ import annotations

import pathlib

import numpy as np
import tensorflow as tf

from processes import steps

PLACEMENTS = ("all", "host", "shards")


def work(folder: pathlib.Path) -> None:
    """Saves what each placement trained, as <name>.npz."""
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 3,
    )
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1", "CPU:2"])
    for name in PLACEMENTS:
        variables, optimizer = steps.train(
            *("Adam", "custom_op", name, steps.PARTS, strategy)
        )
        found = []
        for variable in (*variables, *optimizer.variables):
            first, *others = strategy.experimental_local_results(variable.value)
            found.append(first.numpy())
            for other in others if len(found) <= len(variables) else ():
                np.testing.assert_array_equal(first, other)
        slots = {v.value.device for v in optimizer.variables[2:]}
        np.savez(folder / f"{name}.npz", *found, devices=len(slots))
