"""Sums gradients over the replicas of a strategy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tf_opt.python.functional import arithmetic, slices
from tf_opt.python.functional.arithmetic import Flag, cond
from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.step.plan import Plan
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.gradients import Gradient
from tf_opt.python.tensorflow_internals import can_meet_in_conditions


def check_have_copies(variables: Sequence[Variable]) -> None:
    """Raises a ValueError if several replicas share one copy of a variable.

    They do under `CentralStorageStrategy`.
    """
    if not all(map(access.has_copies, variables)):
        raise ValueError(
            "Each replica must have a copy of each variable. Create the model "
            "and the optimizer in the scope of a `tf.distribute."
            "MirroredStrategy` or a `MultiWorkerMirroredStrategy`. Received: "
            f"{type(tf.distribute.get_strategy()).__name__}"
        )


def sum_gradients(plan: Plan, grads: Sequence[Gradient]) -> list[Gradient]:
    """Returns the sums over all replicas of this replica's gradients.

    Gradients of `plan.sums` are summed together. Sparse ones are concatenated.
    """
    summed = list(grads)
    context = tf.distribute.get_replica_context()
    for positions in plan.sums:
        # TensorFlow can't sum complex numbers over replicas.
        ready = [
            slices.to_gather(grads[i])
            if isinstance(grads[i], tf.IndexedSlices)
            else arithmetic.as_real(grads[i], grads[i].dtype.real_dtype)
            for i in positions
        ]
        totals = context.all_reduce(tf.distribute.ReduceOp.SUM, ready)
        for i, total in zip(positions, totals, strict=True):
            if isinstance(total, tf.IndexedSlices):
                summed[i] = slices.gathered(total, plan.variables[i].dtype)
            else:
                summed[i] = arithmetic.from_real(total, grads[i].dtype)
    return summed


def gather_rows(rows: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns the rows of all replicas, for each of several tables."""
    if not access.in_several_replicas():
        return list(rows)
    ready = [
        slices.to_gather(tf.IndexedSlices(tf.zeros([tf.size(x), 1]), x))
        for x in rows
    ]
    totals = tf.distribute.get_replica_context().all_reduce(
        tf.distribute.ReduceOp.SUM, ready
    )
    return [slices.gathered(total, tf.float32).indices for total in totals]


def share_accumulated(state: OptimizerState, plan: Plan) -> None:
    """Sets every replica's accumulators to their sum over the replicas."""
    accumulators = [
        state.accumulators[state.index_of(x)] for x in plan.variables
    ]
    own = []
    for variable, accumulator in zip(plan.variables, accumulators, strict=True):
        # Some strategies put the sum on a tensor's device, and tensors read
        # inside a condition have no device.
        with tf.device(variable.device):
            own.append(tf.identity(access.value_of(accumulator)))
    for accumulator, total in zip(
        accumulators, sum_gradients(plan, own), strict=True
    ):
        access.assign(accumulator, total)


def when(condition: Flag, do: Callable[[], None]) -> None:
    """Runs `do` in every replica where the condition holds.

    Some strategies can't let replicas meet inside a condition. There the
    condition is outside of the replicas, and the first replica's counts.
    """
    if can_meet_in_conditions():
        cond(condition, do)
        return

    def in_cross_replica(
        strategy: tf.distribute.Strategy, conditions: Any
    ) -> None:
        first = strategy.experimental_local_results(conditions)[0]
        cond(first, lambda: strategy.extended.call_for_each_replica(do))

    context = tf.distribute.get_replica_context()
    context.merge_call(in_cross_replica, args=(condition,))
