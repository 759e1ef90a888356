"""Moves values between variables and the working copies of a step.

Where an optimizer's state isn't beside its variables (see state/placement.py),
a step

    fetches   the values of variables: they may have been assigned from outside
    sums      gradients over replicas, where the state lives
    updates   the working copies there, as in any step
    sends     the new values to the variables, in all replicas.

In a graph all of this is ordered by its data alone: values are fetched as the
step begins, and each bucket is updated and sent as soon as its gradients exist,
beside the backward pass of the buckets that follow.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_opt.python.functional import coasting
from tf_opt.python.functional.arithmetic import Flag, cond
from tf_opt.python.keras_internals import Optimizer, Variable
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.step import replicas
from tf_opt.python.optimizers.step.composed import occurring
from tf_opt.python.optimizers.step.context import StepContext
from tf_opt.python.optimizers.step.plan import Bucket
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.gradients import Gradient
from tf_opt.python.tensorflow_internals import inside_xla


def with_sums(
    context: StepContext, grads: Sequence[Gradient], do: Callable[..., Any]
) -> Any:
    """Calls `do` with the gradients, each on the device where it is applied.

    With several replicas, these are the sums over the replicas, and `do` is
    called once for all of them.
    """
    plan, state = context.plan, context.state
    if not access.in_several_replicas():
        return do(list(map(_moved, grads, plan.variables)))

    def with_sums_of(
        strategy: tf.distribute.Strategy, *of_replicas: Any
    ) -> Any:
        moved = []
        for sums, copy in zip(of_replicas, plan.variables, strict=True):
            copies = access.copies_of(state.variables[state.index_of(copy)])
            # Every replica has the sum; the owner's needn't be moved.
            own = [i for i, x in enumerate(copies) if x is copy] or [0]
            local = strategy.experimental_local_results(sums)
            moved.append(_moved(local[own[0]], copy))
        return do(moved)

    if context.sums_replicas:
        grads = replicas.sum_gradients(plan, grads)
    return tf.distribute.get_replica_context().merge_call(
        with_sums_of, args=tuple(grads)
    )


def _moved(gradient: Gradient, variable: tf.Variable) -> Gradient:
    """Returns a gradient on the device of a variable."""
    with tf.device(variable.device):
        if isinstance(gradient, tf.IndexedSlices):
            return tf.IndexedSlices(
                tf.identity(gradient.values), tf.identity(gradient.indices)
            )
        return tf.identity(gradient)


def check_outside_of_xla(optimizer: Optimizer) -> None:
    """Raises if XLA would compile a step of several devices."""
    if not inside_xla():
        return
    option = "shard_state" if optimizer.shard_state else "state_device"
    raise ValueError(
        f"`{option}` needs steps outside of XLA, which compiles for one "
        "device. Compile the model with `jit_compile=False`: on a machine with "
        "a GPU, Keras' default is True. In a custom loop, only compute "
        "gradients inside of `tf.function(jit_compile=True)`. Received: "
        f"{option}={getattr(optimizer, option)!r}"
    )


class _Part(NamedTuple):
    """A variable, or rows of it.

    Attributes:
        index: The variable's index.
        rows: The rows; None: all of them.
        moves_all: Whether all rows must be moved nevertheless.
    """

    index: int
    rows: tf.Tensor | None = None
    moves_all: Flag = False


# What a step moves: the parts of each bucket, which are sent together.
Parts = list[list[_Part]]


def parts_of_step(context: StepContext, grads: Sequence[Gradient]) -> Parts:
    """Returns what a step moves, given its gradients."""
    state = context.state
    parts = [
        [
            _part(context, bucket, k, grads[i])
            for k, i in enumerate(bucket.positions)
        ]
        for bucket in context.plan.buckets
    ]
    if context.use_ema or context.rule.spec.average is not None:
        # Averages of other variables move as well.
        updated = {part.index for bucket in parts for part in bucket}
        parts.append(
            [
                _Part(index)
                for index, copy in enumerate(state.working_copies)
                if copy is not None and index not in updated
            ]
        )
    return parts


def parts_of_rows(
    state: OptimizerState,
    variables: Sequence[Variable],
    rows: Sequence[tf.Tensor] | None = None,
) -> Parts:
    """Returns what is to move of these rows, or of whole variables."""
    indices = list(map(state.index_of, variables))
    if rows is None:
        return [list(map(_Part, indices))]
    moves_all = [_all_catch_up(state, index) for index in indices]
    return [list(map(_Part, indices, rows, moves_all))]


@contextlib.contextmanager
def moved(
    state: OptimizerState, parts: Parts, update: Flag = True
) -> Iterator[None]:
    """Context manager that fetches values, and sends them at its end.

    Nothing is moved unless there is an `update`.
    """

    def fetch() -> None:
        for bucket in parts:
            for part in bucket:
                copy = state.working_copies[part.index]
                copies = access.copies_of(state.variables[part.index])
                # A working copy that is one of them has the value already.
                if not any(x is copy for x in copies):
                    _move(copies[0], [copy], part)

    def send(bucket: Sequence[_Part]) -> None:
        for part in bucket:
            copy = state.working_copies[part.index]
            copies = access.copies_of(state.variables[part.index])
            _move(copy, [x for x in copies if x is not copy], part)

    cond(update, fetch)
    yield
    for bucket in parts:
        cond(update, functools.partial(send, bucket))


def _part(
    context: StepContext, bucket: Bucket, k: int, gradient: Gradient
) -> _Part:
    """Returns what a step moves of the k-th variable of a bucket."""
    state, index = context.state, bucket.indices[k]
    # A constraint goes over the whole table.
    if not bucket.rows_only or state.variables[index].constraint is not None:
        return _Part(index)
    with state.on_device(index):
        if context.accumulates:
            occurs = occurring(
                gradient, bucket.variables[k], state.accumulators[index]
            )
            rows = tf.where(occurs)[:, 0]
        else:
            rows = tf.unique(gradient.indices)[0]
    return _Part(index, rows, _all_catch_up(state, index))


def _all_catch_up(state: OptimizerState, index: int) -> Flag:
    """Returns whether all rows of a table will catch up; see waiting.py."""
    if not state.waits(index):
        return False
    with state.on_device(index):
        return coasting.is_full(access.value_of(state.coasting[index]))


def _move(
    source: tf.Variable, targets: Sequence[tf.Variable], part: _Part
) -> None:
    """Assigns a part of a variable's value to others."""

    def move(rows: tf.Tensor | None) -> None:
        with tf.device(source.device):
            of_source = {"resource": source.handle, "dtype": source.dtype}
            if rows is None:
                value = tf.raw_ops.ReadVariableOp(**of_source)
            else:
                own = tf.identity(rows)
                value = tf.raw_ops.ResourceGather(**of_source, indices=own)
        for target in targets:
            with tf.device(target.device):
                new, handle = tf.identity(value), target.handle
                if rows is None:
                    tf.raw_ops.AssignVariableOp(resource=handle, value=new)
                else:
                    tf.raw_ops.ResourceScatterUpdate(
                        resource=handle, indices=tf.identity(rows), updates=new
                    )

    if targets:
        moves_all = part.rows is None or part.moves_all
        cond(moves_all, lambda: move(None), lambda: move(part.rows))
