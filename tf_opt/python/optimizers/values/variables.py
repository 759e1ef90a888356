"""Reads and writes variables; in a replica, only the replica's own copy.

All replicas compute the same update. TensorFlow's own `assign` would make them
wait for each other, which isn't possible inside a condition.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional.arithmetic import Flag
from tf_opt.python.keras_internals import (
    Optimizer,
    Variable,
    build_eagerly,
    strategy_of,
    tf_variable,
)
from tf_opt.python.tensorflow_internals import constant, inside_xla


def check_variables(
    variables: Sequence[Any], name: str = "trainable_variables"
) -> None:
    """Raises a TypeError unless all elements of an argument are variables."""
    for i, variable in enumerate(variables):
        if not isinstance(variable, Variable):
            raise TypeError(
                f"`{name}` must be variables. Received: {name}[{i}]="
                f"{variable!r} ({type(variable).__name__})"
            )


def in_replica() -> bool:
    """Returns whether this code runs in a replica of a strategy."""
    return (
        tf.distribute.has_strategy()
        and tf.distribute.get_replica_context() is not None
    )


def in_several_replicas() -> bool:
    """Returns whether this code runs in one of several replicas."""
    return (
        in_replica() and tf.distribute.get_strategy().num_replicas_in_sync > 1
    )


def once_for_all_replicas(function: Callable[[], None]) -> None:
    """Calls a function; if several replicas call this, once and outside."""
    if in_several_replicas():
        replica = tf.distribute.get_replica_context()
        replica.merge_call(lambda _: function())
    else:
        function()


def build_in_first_step(
    optimizer: Optimizer, variables: Sequence[Variable] | None
) -> None:
    """Builds an optimizer that isn't built, once for all replicas."""
    if not optimizer.built:
        own = list(variables)
        once_for_all_replicas(lambda: build_eagerly(optimizer, own))


def creation_scope_of(optimizer: Optimizer) -> AbstractContextManager:
    """Returns the scope in which an optimizer creates variables."""
    # The only replica of a strategy can't enter its scope, and needn't.
    if in_replica() and not in_several_replicas():
        return contextlib.nullcontext()
    return strategy_of(optimizer).scope()


def check_strategy_of(optimizer: Optimizer) -> None:
    """Raises a ValueError in the scope of another strategy than its own."""
    own, current = strategy_of(optimizer), tf.distribute.get_strategy()
    if tf.distribute.has_strategy() and own is not current:
        raise ValueError(
            "An optimizer must be created in the scope of the strategy under "
            "which it is used: `with strategy.scope():`. Received: "
            f"{optimizer}, created under {own} and used under {current}"
        )


def on_host(x: tf.Tensor) -> np.generic | np.ndarray | tf.Tensor:
    """Returns an eager CPU tensor as a NumPy value, any other `x` unchanged."""
    if not isinstance(x, tf.Tensor) or tf.is_symbolic_tensor(x):
        return x
    return x if "GPU" in x.device else x.numpy()


def on_gpu(variable: Variable) -> bool:
    """Returns whether a variable is in a GPU's memory."""
    return "GPU" in tf_variable(variable).device


def in_all_replicas(condition: Flag) -> Flag:
    """Returns whether `condition` holds in every replica."""
    if not in_replica():
        return condition
    fails = tf.cast(tf.logical_not(condition), tf.float32)
    wrong = tf.distribute.get_replica_context().all_reduce(
        tf.distribute.ReduceOp.SUM, fails
    )
    return tf.equal(wrong, 0)


def eager_without_strategy() -> bool:
    """Returns whether code runs eagerly and outside of any strategy."""
    return tf.executing_eagerly() and not tf.distribute.has_strategy()


def read(variable: Variable) -> Any:
    """Reads a scalar variable; `eager_without_strategy` must hold.

    Returns a Python number for a CPU variable, since ops take these at no
    cost, and a tensor otherwise.
    """
    variable = tf_variable(variable)
    value = on_host(
        tf.raw_ops.ReadVariableOp(
            resource=variable.handle, dtype=variable.dtype
        )
    )
    return value.item() if isinstance(value, np.generic) else value


def as_number(x: Any) -> Any:
    """Returns the value of a scalar variable, tensor or number.

    Eagerly it is a Python number where that waits for no device. Otherwise it
    is a tensor, in float64 unless it is an integer.
    """
    if isinstance(x, Variable):
        x = read(x) if eager_without_strategy() else tf.convert_to_tensor(x)
    elif isinstance(x, tf.Tensor):
        x = on_host(x)
        x = x.item() if isinstance(x, np.generic) else x
    if isinstance(x, (int, float)) and tf.executing_eagerly():
        return x
    if isinstance(x, tf.Tensor) and x.dtype.is_integer:
        return x
    return arithmetic.float64(x)


def value_of(variable: Variable) -> tf.Tensor:
    """Returns a variable's value as a tensor."""
    variable = tf_variable(variable)
    if has_own_handle(variable):
        return tf.raw_ops.ReadVariableOp(
            resource=variable.handle, dtype=variable.dtype
        )
    return tf.convert_to_tensor(variable)


def has_own_handle(variable: Variable) -> bool:
    """Returns whether eager code may use a variable's handle directly.

    The checks in TensorFlow's own methods take longer than a small step.
    """
    return eager_without_strategy() and not has_copies(variable)


def has_copies(variable: Variable) -> bool:
    """Returns whether a strategy keeps several copies of a variable.

    Outside of replicas the handle is that of the first copy, and `assign`
    writes all copies.
    """
    return isinstance(tf_variable(variable), tf.distribute.DistributedValues)


def copies_of(variable: Variable) -> Sequence[tf.Variable]:
    """Returns the copies of a variable in this process, or the variable."""
    variable = tf_variable(variable)
    return variable.values if has_copies(variable) else (variable,)


def assign(variable: Variable, value: Any) -> None:
    """Assigns `value`, cast to the variable's type."""
    variable = tf_variable(variable)
    if isinstance(value, (int, float)):
        value = constant(value, variable.dtype)
    elif not isinstance(value, tf.Tensor) or value.dtype != variable.dtype:
        value = tf.cast(value, variable.dtype)
    if in_replica() or has_own_handle(variable):
        tf.raw_ops.AssignVariableOp(
            resource=variable.handle, value=value, validate_shape=True
        )
    else:
        variable.assign(value)


def count(counter: Variable, number: int | tf.Tensor) -> None:
    """Adds an integer to a counter.

    Keras' `assign_add` assigns a sum, which takes longer than a small step.
    """
    # Without `read_value=False`, reading the sum would be one more op.
    tf_variable(counter).assign_add(number, read_value=False)


@functools.cache
def _one() -> tf.Tensor:
    """Returns a constant 1, cached: creating it takes longer than adding it."""
    with tf.init_scope(), tf.device("CPU"):
        return tf.constant(1, tf.int64)


def count_eagerly(counter: Variable) -> None:
    """Adds one through the handle; `eager_without_strategy` must hold."""
    handle = tf_variable(counter).handle
    tf.raw_ops.AssignAddVariableOp(resource=handle, value=_one())


def read_rows(
    variable: Variable, rows: tf.Tensor | None, layer: tf.Tensor | None = None
) -> tf.Tensor:
    """Reads rows of a variable, or all of it if `rows` is None.

    Of a stack it reads those of one layer; the whole stack would be copied.
    """
    if layer is None and rows is None:
        return value_of(variable)
    variable = tf_variable(variable)
    if layer is None or rows is None:
        return tf.gather(variable, rows if layer is None else layer)
    # XLA has no op that reads from the variable itself.
    stack = tf.convert_to_tensor(variable) if inside_xla() else variable
    return tf.gather_nd(stack, _indices_in_layer(layer, rows))


def write_rows(
    variable: Variable,
    rows: tf.Tensor | None,
    values: tf.Tensor,
    layer: tf.Tensor | None = None,
) -> None:
    """Assigns rows of a variable or a layer, or all of it if `rows` is None.

    A repeated row must have the same values each time.
    """
    if layer is not None and rows is None:
        rows, values, layer = layer[None], values[None], None
    if rows is None:
        assign(variable, values)
        return
    variable = tf_variable(variable)
    values = tf.cast(values, variable.dtype)
    if layer is not None:
        indices = _indices_in_layer(layer, rows)
        if inside_xla():
            old = tf.convert_to_tensor(variable)
            new = tf.tensor_scatter_nd_update(old, indices, values)
            assign(variable, new)
        else:
            tf.raw_ops.ResourceScatterNdUpdate(
                ref=variable.handle, indices=indices, updates=values
            )
    elif in_replica():
        tf.raw_ops.ResourceScatterUpdate(
            resource=variable.handle, indices=rows, updates=values
        )
    else:
        variable.scatter_update(tf.IndexedSlices(values, rows))


def add_to_rows(
    variable: Variable, rows: tf.Tensor | None, values: tf.Tensor
) -> None:
    """Adds to rows of a variable, or to all of it if `rows` is None."""
    variable = tf_variable(variable)
    values = tf.cast(values, variable.dtype)
    if not in_replica() and rows is None:
        variable.assign_add(values)
    elif not in_replica():
        variable.scatter_add(tf.IndexedSlices(values, rows))
    elif rows is None:
        tf.raw_ops.AssignAddVariableOp(resource=variable.handle, value=values)
    else:
        tf.raw_ops.ResourceScatterAdd(
            resource=variable.handle, indices=rows, updates=values
        )


def _indices_in_layer(layer: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    rows = tf.cast(rows, layer.dtype)
    return tf.stack([tf.broadcast_to(layer, tf.shape(rows)), rows], 1)
