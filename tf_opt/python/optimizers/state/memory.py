"""How much memory an optimizer's state takes, and where."""

from __future__ import annotations

import collections

import tensorflow as tf

from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.state.placement import bytes_of
from tf_opt.python.optimizers.values import variables as access


def memory_of(state: OptimizerState) -> dict[str, dict[str, int]]:
    """Returns bytes by device and kind; see `FusedOptimizer.memory`."""
    kinds = {
        "variables": state.variables,
        "slots": [x for slot in state.slots for x in slot],
        "master_weights": state.masters,
        "averages": state.averages,
        "accumulators": state.accumulators,
        "missed_steps": [*state.since, *state.coasting],
        "working_copies": state.working_copies,
        "other": state.list_all(),
    }
    found: dict[str, dict[str, int]] = collections.defaultdict(dict)
    seen: set[int] = set()
    for kind, variables in kinds.items():
        for variable in variables:
            for copy in () if variable is None else access.copies_of(variable):
                # A variable counts once, as the first kind that it is of.
                if id(copy) in seen:
                    continue
                seen.add(id(copy))
                spec = tf.DeviceSpec.from_string(copy.device)
                of_device = found[f"{spec.device_type}:{spec.device_index}"]
                of_device[kind] = of_device.get(kind, 0) + bytes_of(copy)
    return dict(found)
