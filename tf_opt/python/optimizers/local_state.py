"""Assigning to variables, in a replica only to its own copy.

Each replica computes the same. TensorFlow would have the replicas wait for each
other, which they can't inside a condition, or refuse.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.keras_internals import Variable
from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.optimizers.flags import Flag
from tf_opt.python.tensorflow_internals import inside_xla


def in_replica() -> bool:
    """Whether this is what a strategy runs in each replica."""
    return (
        tf.distribute.has_strategy()
        and tf.distribute.get_replica_context() is not None
    )


def on_host(x: tf.Tensor) -> np.generic | np.ndarray | tf.Tensor:
    """An eager tensor's value, where that waits for no device; else itself."""
    if isinstance(x, tf.__internal__.EagerTensor) and "GPU" not in x.device:
        return x.numpy()
    return x


def in_all_replicas(condition: Flag) -> Flag:
    """Whether it holds in every replica, where there are any."""
    if not in_replica():
        return condition
    fails = tf.cast(tf.logical_not(condition), tf.float32)
    wrong = tf.distribute.get_replica_context().all_reduce(
        tf.distribute.ReduceOp.SUM, fails
    )
    return tf.equal(wrong, 0)


def is_plain() -> bool:
    """Whether this is an eager step, and none that a strategy runs."""
    return tf.executing_eagerly() and not tf.distribute.has_strategy()


def read(variable: Variable) -> Any:
    """The number in a scalar variable; `is_plain` must hold.

    Python's where that waits for no device: an op takes it at no cost.
    """
    variable = tf_variable(variable)
    value = on_host(
        tf.raw_ops.ReadVariableOp(
            resource=variable.handle, dtype=variable.dtype
        )
    )
    return value.item() if isinstance(value, np.generic) else value


def number(x: Any) -> Any:
    """The number that is in a scalar variable or tensor.

    In an eager step as `read` gives it, otherwise a tensor; in float64 if it
    isn't an integer.
    """
    if isinstance(x, (keras.Variable, tf.Variable)):
        x = read(x) if is_plain() else tf.convert_to_tensor(x)
    elif tf.is_tensor(x):
        x = on_host(x)
        x = x.item() if isinstance(x, np.generic) else x
    if isinstance(x, (int, float)) and tf.executing_eagerly():
        return x
    if isinstance(x, tf.Tensor) and x.dtype.is_integer:
        return x
    return arithmetic.float64(x)


def value_of(variable: Variable) -> tf.Tensor:
    """A variable's value."""
    variable = tf_variable(variable)
    if is_one(variable):
        return tf.raw_ops.ReadVariableOp(
            resource=variable.handle, dtype=variable.dtype
        )
    return tf.convert_to_tensor(variable)


def is_one(variable: Variable) -> bool:
    """Whether an eager step may go to a variable's handle.

    What TensorFlow's own ways ask before takes longer than a small step.
    """
    return is_plain() and not has_copies(variable)


def has_copies(variable: Variable) -> bool:
    """Whether a strategy keeps several copies of a variable.

    Outside of replicas the handle is that of the first one, and assigning goes
    to all of them.
    """
    return isinstance(tf_variable(variable), tf.distribute.DistributedValues)


def assign(variable: Variable, value: Any) -> None:
    """Assigns `value`, cast to the variable's type."""
    variable = tf_variable(variable)
    if not isinstance(value, tf.Tensor) or value.dtype != variable.dtype:
        value = tf.cast(value, variable.dtype)
    if in_replica():
        tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)
    elif is_one(variable):
        tf.raw_ops.AssignVariableOp(
            resource=variable.handle, value=value, validate_shape=True
        )
    else:
        variable.assign(value)


def assign_add(variable: Variable, value: tf.Tensor) -> None:
    """Adds `value`, of the variable's type."""
    variable = tf_variable(variable)
    if in_replica():
        tf.raw_ops.AssignAddVariableOp(resource=variable.handle, value=value)
    else:
        variable.assign_add(value)


def assign_rows(variable: Variable, rows: tf.Tensor, values: tf.Tensor) -> None:
    """Assigns some rows; one that occurs again must have the same values."""
    variable = tf_variable(variable)
    values = tf.cast(values, variable.dtype)
    if in_replica():
        tf.raw_ops.ResourceScatterUpdate(
            resource=variable.handle, indices=rows, updates=values
        )
    else:
        variable.scatter_update(tf.IndexedSlices(values, rows))


def read_rows(variable: Variable, rows: tf.Tensor | None) -> tf.Tensor:
    """Some rows of a variable; None: all of it."""
    if rows is None:
        return value_of(variable)
    return tf.gather(tf_variable(variable), rows)


def write_rows(
    variable: Variable, rows: tf.Tensor | None, values: tf.Tensor
) -> None:
    """Assigns some rows, or with None all of it."""
    if rows is None:
        assign(variable, values)
    else:
        assign_rows(variable, rows, values)


def add_to_rows(variable: Variable, rows: tf.Tensor, values: tf.Tensor) -> None:
    """Adds to some rows."""
    variable = tf_variable(variable)
    values = tf.cast(values, variable.dtype)
    if in_replica():
        tf.raw_ops.ResourceScatterAdd(
            resource=variable.handle, indices=rows, updates=values
        )
    else:
        variable.scatter_add(tf.IndexedSlices(values, rows))


def read_at(variable: Variable, places: tf.Tensor) -> tf.Tensor:
    """Parts of a variable, each at a place of several indices."""
    variable = tf_variable(variable)
    # XLA has no op that reads from the variable itself.
    return tf.gather_nd(
        tf.convert_to_tensor(variable) if inside_xla() else variable, places
    )


def assign_at(variable: Variable, places: tf.Tensor, values: tf.Tensor) -> None:
    """Assigns them."""
    variable = tf_variable(variable)
    values = tf.cast(values, variable.dtype)
    if inside_xla():
        old = tf.convert_to_tensor(variable)
        assign(variable, tf.tensor_scatter_nd_update(old, places, values))
    else:
        tf.raw_ops.ResourceScatterNdUpdate(
            ref=variable.handle, indices=places, updates=values
        )
