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

import tensorflow as tf

from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.optimizers import local_state
from tf_opt.python.optimizers.flags import Flag
from tf_opt.python.optimizers.flags import both
from tf_opt.python.optimizers.flags import is_zero
from tf_opt.python.optimizers.step_plan import Bucket

if TYPE_CHECKING:
    from tf_opt.python.optimizers.fused_optimizer import FusedOptimizer


def before(optimizer: FusedOptimizer, bucket: Bucket) -> list[tf.Tensor]:
    """For each of a bucket's tables, the rows of this cycle, with repetitions.

    Args:
        optimizer: The optimizer.
        bucket: Variables with sparse gradients.
    """
    state = optimizer._unlisted
    count = local_state.number(optimizer._iterations)
    begins = is_zero(count % optimizer.gradient_accumulation_steps)
    is_known = is_zero(local_state.number(state.accumulated_until) - count)

    def rows_of(index: int) -> tf.Tensor:
        return _either(
            begins,
            lambda: tf.zeros([0], tf.int64),
            lambda: _either(
                is_known,
                lambda: tf.convert_to_tensor(state.accumulated_rows[index]),
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
) -> list[tf.Tensor]:
    """Writes down what a step has added.

    Args:
        optimizer: The optimizer.
        bucket: Variables with sparse gradients.
        rows: What `before` said.
        added: For each table the rows of the step.
        enabled: Whether there was a step.
        empties: Whether it has emptied the accumulators.

    Returns:
        For each table the rows of the cycle, as they are written down.
    """
    state = optimizer._unlisted
    empties = both(enabled, empties)
    kept = []
    for index, old, new in zip(bucket.indices, rows, added, strict=True):
        new = _all_if(enabled, tf.cast(new, tf.int64))
        now = tf.concat([old, new], axis=0)
        if empties is not False:
            now = _all_if(tf.logical_not(empties), now)
        local_state.assign(state.accumulated_rows[index], now)
        kept.append(now)
    count = tf.convert_to_tensor(optimizer._iterations)
    local_state.assign(
        state.accumulated_until, count + tf.cast(enabled, count.dtype)
    )
    return kept


def noted(optimizer: FusedOptimizer, index: int) -> tf.Tensor:
    """The rows of this cycle of a table, each once."""
    rows = optimizer._unlisted.accumulated_rows[index]
    return tf.unique(tf.convert_to_tensor(rows)).y


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
