"""Which rows of a table were accumulated, where only these are updated.

Accumulators are whole tables, as Keras', so that checkpoints are the same. That
an update need not look for what is in them, the rows are written down: in lists
that Keras doesn't see, begun anew in each cycle and good up to a count of
micro-steps. If that is not the count that the optimizer is at, after a
checkpoint was restored say, the accumulators are looked through once.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import TYPE_CHECKING

import keras
import tensorflow as tf

from tf_opt.python.keras_internals import strategy_of
from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.optimizers import local_state
from tf_opt.python.optimizers.flags import Flag
from tf_opt.python.optimizers.flags import both
from tf_opt.python.optimizers.flags import is_zero
from tf_opt.python.optimizers.step_plan import Bucket
from tf_opt.python.optimizers.unlisted_state import NotedRows

if TYPE_CHECKING:
    from tf_opt.python.optimizers.fused_optimizer import FusedOptimizer


def build(
    optimizer: FusedOptimizer, variables: Sequence[keras.Variable]
) -> None:
    """Makes a list for each variable, where it is.

    Args:
        optimizer: The optimizer, which has none yet.
        variables: Its variables.
    """
    lists = optimizer._unlisted.accumulated_rows
    for variable in variables:
        variable = tf_variable(variable)
        if variable.shape.rank == 0:
            lists.append(None)
            continue
        with strategy_of(optimizer).extended.colocate_vars_with(variable):
            lists.append(NotedRows(variable.shape[0]))


def before(optimizer: FusedOptimizer, bucket: Bucket) -> list[tf.Tensor]:
    """For each of a bucket's tables, the rows of this cycle, with repetitions.

    Args:
        optimizer: The optimizer.
        bucket: Variables with sparse gradients.
    """
    state = optimizer._unlisted
    count = local_state.number(optimizer._iterations)
    begins = is_zero(count % optimizer.gradient_accumulation_steps)

    def rows_of(index: int) -> tf.Tensor:
        until = local_state.number(state.accumulated_rows[index].until)
        is_known = is_zero(until - count)
        return _either(
            begins,
            lambda: tf.zeros([0], tf.int64),
            lambda: _either(
                is_known,
                lambda: read(optimizer, index),
                lambda: find(optimizer._accumulated_gradients[index]),
            ),
        )

    return list(map(rows_of, bucket.indices))


def note(
    optimizer: FusedOptimizer,
    bucket: Bucket,
    rows: Sequence[tf.Tensor],
    added: Sequence[tf.Tensor],
    enabled: Flag,
    *,
    empties: Flag = False,
) -> None:
    """Writes down what a step has added.

    Args:
        optimizer: The optimizer.
        bucket: Variables with sparse gradients.
        rows: What `before` said.
        added: For each table the rows of the step.
        enabled: Whether there was a step.
        empties: Whether it has emptied the accumulators.
    """
    empties = both(enabled, empties)
    count = tf.convert_to_tensor(optimizer._iterations)
    until = count + tf.cast(enabled, count.dtype)
    for index, old, new in zip(bucket.indices, rows, added, strict=True):
        new = _all_if(enabled, tf.cast(new, tf.int64))
        now = tf.concat([old, new], axis=0)
        if empties is not False:
            now = _all_if(tf.logical_not(empties), now)
        noted = optimizer._unlisted.accumulated_rows[index]
        _write(noted, now)
        local_state.assign(noted.until, until)


def forget(optimizer: FusedOptimizer) -> None:
    """Has the accumulators looked through: they may be others."""
    for noted in optimizer._unlisted.accumulated_rows:
        if noted is not None:
            noted.until.assign(-1)


def read(optimizer: FusedOptimizer, index: int) -> tf.Tensor:
    """The rows of this cycle of a table, as they are written down."""
    noted = optimizer._unlisted.accumulated_rows[index]
    # Not sliced: that would copy all of it.
    return tf.gather(noted.rows, tf.range(tf.convert_to_tensor(noted.count)))


def _write(noted: NotedRows, rows: tf.Tensor) -> None:
    # There is room for all rows, but not for all their repetitions.
    rows = tf.cond(
        tf.size(rows) > noted.rows.shape[0],
        lambda: tf.unique(rows).y,
        lambda: rows,
    )
    count = tf.size(rows, tf.int64)
    local_state.assign_rows(noted.rows, tf.range(count), rows)
    local_state.assign(noted.count, count)


def find(accumulator: tf.Variable) -> tf.Tensor:
    """The rows in which there is something."""
    return tf.where(are_accumulated(accumulator))[:, 0]


def are_accumulated(accumulator: tf.Variable) -> tf.Tensor:
    """For each row, whether there is something in it."""
    values = tf.convert_to_tensor(tf_variable(accumulator))
    return tf.reduce_any(values != 0, axis=range(1, values.shape.rank))


def _either(
    condition: Flag,
    then: Callable[[], tf.Tensor],
    otherwise: Callable[[], tf.Tensor],
) -> tf.Tensor:
    if isinstance(condition, bool):
        return then() if condition else otherwise()
    return tf.cond(condition, then, otherwise)


def _all_if(condition: Flag, rows: tf.Tensor) -> tf.Tensor:
    """All of them, or none."""
    if condition is True:
        return rows
    return rows[: tf.shape(rows)[0] * tf.cast(condition, tf.int32)]
