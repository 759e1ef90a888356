"""Everything private that tf_opt uses of TensorFlow.

Check this file when a new TensorFlow comes out.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import pkgutil
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tf_opt.version import TESTED_VERSIONS

CUSTOM_OPS = "Running custom ops"
_AUTOGRAPH = "Tracing tf_opt without AutoGraph"
# The error of each feature that needs a missing name.
missing: dict[str, str] = {}


def private(feature: str, place: str) -> Any:
    """Looks up a private name of Keras or TensorFlow.

    A new version may move or remove it. Then this returns a function that
    raises a RuntimeError, and only the feature that needs it isn't possible.
    """

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError(missing[feature])

    try:
        return pkgutil.resolve_name(place)
    except (AttributeError, ImportError) as error:
        missing[feature] = (
            f"{feature} isn't possible with TensorFlow {tf.__version__} and "
            f"Keras {keras.__version__}, but with {TESTED_VERSIONS} ({error})"
        )
        return refuse


_definition_of, _kernels_of, _is_for_xla, _has_op_callbacks = (
    private(CUSTOM_OPS, f"tensorflow.python.{name}")
    for name in (
        "framework.op_def_registry.get",
        "framework.kernels.get_registered_kernels_for_op",
        "ops.control_flow_util.GraphOrParentsInXlaContext",
        "framework.op_callbacks.should_invoke_op_callbacks",
    )
)
_autograph, _DoNotConvert, _ = (
    private(_AUTOGRAPH, f"tensorflow.python.autograph.core:config{name}")
    for name in ("", ".DoNotConvert", ".CONVERSION_RULES")
)
_ResourceVariable = private(
    "`state_device` or `shard_state` under a strategy",
    "tensorflow.python.ops.resource_variable_ops.ResourceVariable",
)
# Whether replicas may meet inside a condition.
can_meet_in_conditions = private(
    "A step of this kind in replicas",
    "tensorflow:__internal__.distribute.strategy_supports_no_merge_call",
)


def inside_xla() -> bool:
    """Whether XLA will compile the op that is being built.

    True inside `tf.function(jit_compile=True)`, including plain functions
    nested in it, and under a TPU strategy. False if TensorFlow can't tell.
    """
    if tf.executing_eagerly() or CUSTOM_OPS in missing:
        return False
    return _is_for_xla(tf.compat.v1.get_default_graph())


@contextlib.contextmanager
def plain_variables(device: str) -> Iterator[None]:
    """Context manager that creates variables once, on a device.

    So it does inside of a strategy, of its replicas and of traced functions.
    """

    def create(_: Any, **arguments: Any) -> tf.Variable:
        names = ("initial_value", "trainable", "dtype", "name", "shape")
        given = {name: arguments.get(name) for name in names}
        return _ResourceVariable(**given)

    # A strategy's creators come before this one, the innermost.
    with tf.init_scope(), tf.device(device), tf.variable_creator_scope(create):
        yield


@contextlib.contextmanager
def explains_later_traces() -> Iterator[None]:
    """Context manager whose error names `build` where variables come too late.

    Only the first trace of a `tf.function` may create variables.
    """
    try:
        yield
    except ValueError as error:
        if "only supports singleton tf.Variables" not in str(error):
            raise
        raise ValueError(
            "Only the first trace of a `tf.function` may create variables, and "
            "an optimizer's came later. Create the optimizer outside of the "
            "function, and call `optimizer.build(variables)` before the "
            "function's first call."
        ) from error


def in_thread_of_tensorflow() -> bool:
    """Whether TensorFlow started this thread, as in `tf.py_function`."""
    return isinstance(threading.current_thread(), threading._DummyThread)


def has_op_callbacks() -> bool:
    """Whether TensorFlow reports each op, as for `enable_check_numerics`."""
    # It may, if it can't tell.
    return CUSTOM_OPS in missing or bool(_has_op_callbacks())


@functools.cache
def registered_kernels(op_name: str) -> frozenset[tuple[str, tf.DType]]:
    """Returns the (device type, `T`) pairs for which an op has kernels."""
    return frozenset(
        (kernel.device_type, tf.dtypes.as_dtype(dtype))
        for kernel in _kernels_of(op_name).kernel
        for constraint in kernel.constraint
        if constraint.name == "T"
        for dtype in constraint.allowed_values.list.type
    )


class OpSignature(NamedTuple):
    """Names of an op's inputs and attributes, in the order of registration.

    Attributes:
        handles: Inputs that are lists of resource handles.
        scalars: Inputs that aren't lists, by type.
        modes: Boolean attributes.
    """

    handles: tuple[str, ...]
    scalars: dict[tf.DType, tuple[str, ...]]
    modes: tuple[str, ...]


def is_registered(op_name: str) -> bool:
    """Whether an op of this name is registered."""
    return _definition_of(op_name) is not None


@functools.cache
def signature_of(op_name: str) -> OpSignature:
    """Returns the signature of a registered op."""
    op = _definition_of(op_name)
    handles = []
    scalars = collections.defaultdict(tuple)
    for argument in op.input_arg:
        if not argument.number_attr:
            scalars[tf.dtypes.as_dtype(argument.type)] += (argument.name,)
        elif argument.type == tf.resource.as_datatype_enum:
            handles.append(argument.name)
    return OpSignature(
        handles=tuple(handles),
        scalars=dict(scalars),
        modes=tuple(
            attribute.name for attribute in op.attr if attribute.type == "bool"
        ),
    )


def constant(number: float, dtype: tf.DType) -> tf.Tensor:
    """Returns a number that may be another one in each step as a tensor.

    TensorFlow keeps every distinct Python number that becomes an eager tensor,
    some 700 bytes each, for good. It doesn't keep arrays.
    """
    # The user's `np.seterr` isn't for TensorFlow's numbers.
    with np.errstate(all="ignore"):
        return tf.constant(np.array(number, dtype.as_numpy_dtype))


def exclude_from_autograph(package: str) -> None:
    """Keeps AutoGraph from converting a package's functions, as for Keras.

    Conversion would double the time to trace a step and print warnings about
    code that AutoGraph doesn't understand.
    """
    if _AUTOGRAPH in missing:
        warnings.warn(missing[_AUTOGRAPH], RuntimeWarning, stacklevel=2)
        return
    rule, rules = _DoNotConvert(package), _autograph.CONVERSION_RULES
    # The package may have been imported before.
    if str(rule) not in map(str, rules):
        _autograph.CONVERSION_RULES = (rule, *rules)


def traced(
    function: Callable[..., Sequence[tf.Tensor]],
    signature: Sequence[tf.TensorSpec],
    *,
    in_one_thread: bool,
) -> Callable[..., Sequence[tf.Tensor]]:
    """Traces a function of tensors into a graph that is quick to call eagerly.

    The public call compares each tensor with the signature in Python, which
    takes as long as a small step. No tape records a call. The function has no
    variables. `in_one_thread` runs its ops one after the other, which is
    quicker for few ops; each op may still use several threads.
    """
    graph = tf.function(function, autograph=False)
    call = graph.get_concrete_function(*signature)
    # Where it has a quicker one.
    call = getattr(getattr(call, "inference_fn", None), "call_flat", call)
    if not in_one_thread:
        return call

    def call_in_one_thread(*tensors: tf.Tensor) -> Sequence[tf.Tensor]:
        with tf.experimental.function_executor_type("SINGLE_THREADED_EXECUTOR"):
            return call(*tensors)

    return call_in_one_thread
