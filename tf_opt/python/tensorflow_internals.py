"""Everything tf_opt asks of TensorFlow that has no public name.

Kept in one file: it is what to look at when a new TensorFlow comes out.
"""

from __future__ import annotations

import functools
import weakref
from typing import Protocol

import tensorflow as tf
from tensorflow.python.framework import auto_control_deps
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


class Alias(Protocol):
    """A resource through which an op writes to the variables of `handles`."""

    resource_handle: tf.Tensor
    handles: list[tf.Tensor]


_aliases: weakref.WeakSet[Alias] = weakref.WeakSet()


def declare_alias(alias: Alias) -> None:
    """Orders, in every `tf.function`, the alias's uses with its variables'.

    Automatic control dependencies go by the resources an op takes: without
    this, a slot read after a step in the same function could run before it.
    """
    _aliases.add(alias)


@auto_control_deps.register_acd_resource_resolver
def _resolve_aliases(op, resource_reads, resource_writes) -> bool:
    """Adds the variables behind an alias to what `op` writes."""
    captures = getattr(op.graph, "function_captures", None)
    if captures is None:
        return False
    # External tensor's id to the graph's own placeholder for it.
    placeholders = captures.by_val_internal
    updated = False
    for alias in _aliases:
        placeholder = placeholders.get(id(alias.resource_handle))
        if placeholder is None or (
            placeholder not in resource_reads
            and placeholder not in resource_writes
        ):
            continue
        for handle in alias.handles:
            variable = placeholders.get(id(handle))
            if variable is not None and variable not in resource_writes:
                resource_writes.add(variable)
                updated = True
    return updated
