"""Which rows of a table were accumulated, where only these are updated.

Accumulators are whole tables, as Keras', so that checkpoints are the same. That
an update need not look for what is in them, the rows are written down, in lists
that Keras doesn't see: for each variable a list and how long it is, -1 if that
isn't known. All of it is good for one count of micro-steps. If that is not the
one that the optimizer is at, after a checkpoint was restored say, accumulators
are looked through once.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING

import keras
import tensorflow as tf

from tf_opt.python.keras_internals import strategy_of
from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.optimizers import local_state
from tf_opt.python.optimizers.flags import Flag

if TYPE_CHECKING:
    from tf_opt.python.optimizers.fused_optimizer import FusedOptimizer

_UNKNOWN = -1


def build(
    optimizer: FusedOptimizer, variables: Sequence[keras.Variable]
) -> None:
    """Makes empty lists, each where its variable is.

    Args:
        optimizer: The optimizer, which has none yet.
        variables: Its variables.
    """
    state = optimizer._unlisted

    def zeros(shape: Sequence[int], name: str) -> tf.Variable:
        value = tf.zeros(shape, tf.int64)
        return tf.Variable(value, trainable=False, name=name)

    variables = list(map(tf_variable, variables))
    extended = strategy_of(optimizer).extended
    # Also so that no partitioner takes them apart.
    with extended.colocate_vars_with(variables[0]):
        state.accumulated_until = zeros([], "accumulated_until")
        state.accumulated_counts = zeros([len(variables)], "accumulated_counts")
    for variable in variables:
        with extended.colocate_vars_with(variable):
            # There is room for all rows; a number has none.
            state.accumulated_rows.append(
                zeros(variable.shape[:1], "accumulated_rows")
            )


def forget(optimizer: FusedOptimizer) -> None:
    """Has accumulators looked through: they may be others."""
    until = optimizer._unlisted.accumulated_until
    if until is not None:
        until.assign(_UNKNOWN)


def before(
    optimizer: FusedOptimizer, indices: Iterable[int]
) -> dict[int, tf.Tensor]:
    """What has been accumulated before a step, with repetitions.

    Args:
        optimizer: The optimizer.
        indices: Where the tables stand among its variables.

    Returns:
        For each of them the rows.
    """
    found = find(optimizer, indices)
    return {
        index: tf.concat([rows, found[index]], axis=0)
        for index, rows in noted(optimizer, indices).items()
    }


def noted(
    optimizer: FusedOptimizer, indices: Iterable[int]
) -> dict[int, tf.Tensor]:
    """Of that, what is written down; the same in all replicas."""
    lengths = tf.maximum(_counts(optimizer), 0)
    return {i: read(optimizer, i, lengths[i]) for i in indices}


def find(
    optimizer: FusedOptimizer, indices: Iterable[int]
) -> dict[int, tf.Tensor]:
    """What is in accumulators of which it isn't known."""
    counts = _counts(optimizer)

    def rows_of(index: int) -> tf.Tensor:
        return tf.cond(
            counts[index] == _UNKNOWN,
            lambda: look_for(optimizer, index),
            lambda: tf.zeros([0], tf.int64),
        )

    return {index: rows_of(index) for index in indices}


def note(
    optimizer: FusedOptimizer,
    rows: Mapping[int, tf.Tensor],
    others: Iterable[int],
    enabled: Flag,
    *,
    empties: Flag = False,
) -> None:
    """Writes down what is in the accumulators after a step.

    Args:
        optimizer: The optimizer.
        rows: For some tables what was there before, and what the step added.
        others: The variables to which it has added elsewhere.
        enabled: Whether there was a step.
        empties: Whether it has emptied all these accumulators.
    """
    state = optimizer._unlisted
    new = {index: tf.constant(_UNKNOWN, tf.int64) for index in others}
    for index, noted in rows.items():
        if index in new:
            continue
        room = state.accumulated_rows[index]
        # There is none for all repetitions.
        noted = tf.cond(
            tf.size(noted) > room.shape[0],
            lambda noted=noted: tf.unique(noted).y,
            lambda noted=noted: noted,
        )
        new[index] = tf.size(noted, tf.int64)
        local_state.assign_rows(room, tf.range(new[index]), noted)
    counts = _with_counts(
        _counts(optimizer),
        {
            index: tf.where(empties, tf.zeros_like(count), count)
            for index, count in new.items()
        },
    )
    old = tf.convert_to_tensor(state.accumulated_counts)
    local_state.assign(state.accumulated_counts, tf.where(enabled, counts, old))
    now = tf.convert_to_tensor(optimizer._iterations)
    until = tf.convert_to_tensor(state.accumulated_until)
    local_state.assign(
        state.accumulated_until,
        tf.where(enabled, tf.cast(now, tf.int64) + 1, until),
    )


def empty(
    optimizer: FusedOptimizer, indices: Iterable[int], condition: Flag
) -> None:
    """Empties lists, if the condition holds."""
    state = optimizer._unlisted
    counts = tf.convert_to_tensor(state.accumulated_counts)
    none = dict.fromkeys(indices, tf.constant(0, tf.int64))
    local_state.assign(
        state.accumulated_counts,
        tf.where(condition, _with_counts(counts, none), counts),
    )


def read(
    optimizer: FusedOptimizer, index: int, count: tf.Tensor | None = None
) -> tf.Tensor:
    """The rows of a table as they are written down."""
    state = optimizer._unlisted
    if count is None:
        count = tf.convert_to_tensor(state.accumulated_counts)[index]
    # Not sliced: that would copy the whole list.
    return tf.gather(state.accumulated_rows[index], tf.range(count))


def look_for(optimizer: FusedOptimizer, index: int) -> tf.Tensor:
    """The rows of a table in which something has been accumulated."""
    accumulator = optimizer._accumulated_gradients[index]
    return tf.where(are_accumulated(accumulator))[:, 0]


def are_accumulated(accumulator: tf.Variable) -> tf.Tensor:
    """For each row, whether there is something in it."""
    values = tf.convert_to_tensor(tf_variable(accumulator))
    return tf.reduce_any(values != 0, axis=range(1, values.shape.rank))


def all_if(condition: Flag, rows: tf.Tensor) -> tf.Tensor:
    """All of them, or none."""
    if condition is True:
        return rows
    return rows[: tf.shape(rows)[0] * tf.cast(condition, tf.int32)]


def _counts(optimizer: FusedOptimizer) -> tf.Tensor:
    """How long the lists are, if they are good for this micro-step."""
    state = optimizer._unlisted
    now = tf.cast(tf.convert_to_tensor(optimizer._iterations), tf.int64)
    return tf.where(
        tf.equal(tf.convert_to_tensor(state.accumulated_until), now),
        tf.convert_to_tensor(state.accumulated_counts),
        _UNKNOWN,
    )


def _with_counts(
    counts: tf.Tensor, others: Mapping[int, tf.Tensor]
) -> tf.Tensor:
    if not others:
        return counts
    return tf.tensor_scatter_nd_update(
        counts, [[index] for index in others], tf.stack(list(others.values()))
    )
