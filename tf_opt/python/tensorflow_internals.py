"""Everything tf_opt asks of TensorFlow that has no public name.

Kept in one file: it is what to look at when a new TensorFlow comes out.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf
from tensorflow.python.autograph.core import config as autograph_config
from tensorflow.python.framework import kernels
from tensorflow.python.framework import op_callbacks
from tensorflow.python.framework import op_def_registry
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


def in_thread_of_tensorflow() -> bool:
    """Whether this thread wasn't begun by Python, as in `tf.py_function`."""
    return isinstance(threading.current_thread(), threading._DummyThread)


def has_op_callbacks() -> bool:
    """Whether somebody is told of each op, as `enable_check_numerics` is."""
    return bool(op_callbacks.should_invoke_op_callbacks())


def unwatched_constant(x: float) -> float | tf.Tensor:
    """Makes a float64 constant of which no callback of ops is told.

    `tf.constant` tells them, and so does an op that is given a number.

    Args:
        x: Its value.

    Returns:
        The number itself where there are no callbacks, or no graph.
    """
    if tf.executing_eagerly() or not has_op_callbacks():
        return x
    value = tf.compat.v1.AttrValue(tensor=tf.make_tensor_proto(x, tf.float64))
    dtype = tf.compat.v1.AttrValue(type=tf.float64.as_datatype_enum)
    constant = ops.get_default_graph().create_op(
        "Const", [], [tf.float64], attrs={"value": value, "dtype": dtype}
    )
    return constant.outputs[0]


def eager_signature(tensors: Sequence[tf.Tensor]) -> list[tuple]:
    """The type and shape of each of some eager tensors, found quickly."""
    return [(x._datatype_enum(), x._shape_tuple()) for x in tensors]


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


class OpSignature(NamedTuple):
    """What an op was registered with; all are names, in its own order.

    Attributes:
        handles: Its lists of resource handles.
        optional_handles: Those that may be empty.
        scalars: By type, its inputs that are no lists.
        modes: Its boolean attributes.
    """

    handles: tuple[str, ...]
    optional_handles: frozenset[str]
    scalars: dict[tf.DType, tuple[str, ...]]
    modes: tuple[str, ...]


@functools.cache
def signature_of(op_name: str) -> OpSignature:
    """What a registered op takes."""
    op = op_def_registry.get(op_name)
    attributes = {attribute.name: attribute for attribute in op.attr}
    lists = [argument for argument in op.input_arg if argument.number_attr]
    handles = [
        argument
        for argument in lists
        if tf.dtypes.as_dtype(argument.type or tf.float32) == tf.resource
    ]
    scalars: dict[tf.DType, tuple[str, ...]] = {}
    for argument in op.input_arg:
        if not argument.number_attr:
            dtype = tf.dtypes.as_dtype(argument.type)
            scalars[dtype] = (*scalars.get(dtype, ()), argument.name)
    return OpSignature(
        handles=tuple(argument.name for argument in handles),
        optional_handles=frozenset(
            argument.name
            for argument in handles
            if attributes[argument.number_attr].minimum == 0
        ),
        scalars=scalars,
        modes=tuple(
            attribute.name for attribute in op.attr if attribute.type == "bool"
        ),
    )


def exclude_from_autograph(package: str) -> None:
    """Has AutoGraph call a package's functions as they are, as it does Keras'.

    Converting them would double the time to trace a step, and warn of what
    AutoGraph doesn't understand.
    """
    rule = autograph_config.DoNotConvert(package)
    rules = autograph_config.CONVERSION_RULES
    autograph_config.CONVERSION_RULES = (rule, *rules)


def traced(
    function: Callable[..., Sequence[tf.Tensor]],
    signature: Sequence[tf.TensorSpec],
    *,
    in_one_thread: bool,
) -> Callable[..., Sequence[tf.Tensor]]:
    """A function of tensors as a graph that eager code calls with little ado.

    What is public would compare each tensor with the signature, in Python, in
    the time of a small step. No tape records a call.

    Args:
        function: The function, without variables.
        signature: What it takes.
        in_one_thread: Whether its ops run one after the other, which for few
            ops is quicker than to share them out. Each may use several threads.
    """
    graph = tf.function(function, autograph=False)
    call = graph.get_concrete_function(*signature).inference_fn.call_flat
    if not in_one_thread:
        return call

    def call_in_one_thread(*tensors: tf.Tensor) -> Sequence[tf.Tensor]:
        with tf.experimental.function_executor_type("SINGLE_THREADED_EXECUTOR"):
            return call(*tensors)

    return call_in_one_thread
