"""Everything tf_opt asks of TensorFlow that has no public name.

Kept in one file: it is what to look at when a new TensorFlow comes out.
"""

from __future__ import annotations

import functools

import tensorflow as tf
from tensorflow.python.autograph.core import config as autograph_config
from tensorflow.python.framework import kernels
from tensorflow.python.framework import ops
from tensorflow.python.ops import control_flow_util


def inside_xla() -> bool:
    """Whether the op being built will be compiled by XLA.

    True inside `tf.function(jit_compile=True)`, also in plain functions nested
    in it, and under a TPU strategy.
    """
    if tf.executing_eagerly():
        return False
    return control_flow_util.GraphOrParentsInXlaContext(ops.get_default_graph())


@functools.cache
def registered_kernels(op_name: str) -> frozenset[tuple[str, tf.DType]]:
    """The (device type, `T`) pairs that an op has kernels for."""
    pairs = set()
    for kernel in kernels.get_registered_kernels_for_op(op_name).kernel:
        for constraint in kernel.constraint:
            if constraint.name == "T":
                for dtype in constraint.allowed_values.list.type:
                    pairs.add((kernel.device_type, tf.dtypes.as_dtype(dtype)))
    return frozenset(pairs)


def exclude_from_autograph(package: str) -> None:
    """Has AutoGraph call a package's functions as they are, as it does Keras'.

    Converting them would double the time to trace a step, and warn of what
    AutoGraph doesn't understand.
    """
    rule = autograph_config.DoNotConvert(package)
    rules = autograph_config.CONVERSION_RULES
    autograph_config.CONVERSION_RULES = (rule, *rules)
