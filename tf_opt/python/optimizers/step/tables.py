"""Rows of sparse gradients: their accumulators and checks."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tf_opt.python import dispatch
from tf_opt.python import ops
from tf_opt.python.functional import slices
from tf_opt.python.keras_internals import Variable
from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.ops.measure_gradients import SPARSE_OP_NAME
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.step.composed import rows_accumulated
from tf_opt.python.optimizers.step.plan import Plan
from tf_opt.python.optimizers.step.settings import Settings
from tf_opt.python.optimizers.values import gradients
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.flags import Flag
from tf_opt.python.optimizers.values.flags import both
from tf_opt.python.optimizers.values.gradients import Gradient
from tf_opt.python.tensorflow_internals import inside_xla


def accumulated_rows(
    settings: Settings, state: OptimizerState, plan: Plan, update: Flag
) -> list[list[tf.Tensor]]:
    """Returns for each bucket the rows with accumulated gradients.

    A row counts if anything in it isn't zero. Only launches of the custom op in
    lazy mode take such rows, in updates and where averages follow.

    Args:
        settings: The step's options.
        state: The optimizer's state.
        plan: The step's plan.
        update: Whether the step updates.
    """
    found: list[list[tf.Tensor]] = []
    seen: set[int] = set()
    for bucket in plan.buckets:
        rows = []
        if (
            bucket.sparse
            and bucket.runs_op
            and settings.accumulates
            and settings.lazy_mode
        ):
            for index in bucket.indices:
                # If a table is updated twice, only its first update needs rows.
                needed = index not in seen and (settings.use_ema or update)
                rows.append(_rows_of(state, index, needed))
                seen.add(index)
        found.append(rows)
    return found


def _rows_of(state: OptimizerState, index: int, needed: Flag) -> tf.Tensor:
    accumulator = state.accumulators[index]

    def scan() -> tf.Tensor:
        accumulated = tf.convert_to_tensor(accumulator)
        return tf.where(rows_accumulated(accumulated))[:, 0]

    def nothing() -> tf.Tensor:
        return tf.zeros([0], tf.int64)

    if isinstance(needed, bool):
        return scan() if needed else nothing()
    # XLA can't compile branches with different shapes.
    return scan() if inside_xla() else tf.cond(needed, scan, nothing)


def check(
    plan: Plan, grads: Sequence[Gradient], variables: Sequence[Variable]
) -> list[tf.Operation]:
    """Checks the rows of the sparse gradients that no custom op checks.

    Args:
        plan: The step's plan.
        grads: The step's gradients, as the user gave them.
        variables: The step's variables, as the user gave them.

    Returns:
        In a graph, the ops that check.
    """
    checks: list[tf.Operation] = []
    for bucket in plan.buckets:
        if bucket.sparse and bucket.runs_op:
            continue
        for i in bucket.positions:
            if isinstance(grads[i], tf.IndexedSlices):
                checks += gradients.check_rows(
                    grads[i], tf_variable(variables[i]), variables[i]
                )
    return checks


# ---- Inside XLA. ----
#
# XLA keeps no order except that of data. A wrong row must stop the whole step,
# so the step's flag depends on an op that checks the rows.


def exist_inside_xla(
    settings: Settings,
    plan: Plan,
    given: Sequence[Gradient],
    grads: Sequence[Gradient],
    variables: Sequence[Variable],
) -> Flag:
    """Returns whether the rows of all sparse gradients exist; if not, fails.

    Args:
        settings: The step's options.
        plan: The step's plan.
        given: The gradients as the user gave them.
        grads: The gradients that the step applies, perhaps made dense.
        variables: The step's variables, as the user gave them.
    """
    found: Flag = True
    for bucket in plan.buckets:
        if bucket.sparse:
            if bucket.runs_op:
                own = [grads[i] for i in bucket.positions]
                exist = _exist(own, bucket.variables, bucket.names)
                found = both(found, exist)
            continue
        for i in bucket.positions:
            gradient, variable = given[i], variables[i]
            if isinstance(
                gradient, tf.IndexedSlices
            ) and dispatch.could_run_custom_op(
                settings.implementation,
                SPARSE_OP_NAME,
                gradient.values.dtype,
                tf_variable(variable).device,
            ):
                names = [gradients.path_of(variable)]
                found = both(found, _exist([gradient], [variable], names))
    return found if found is True else access.in_all_replicas(found)


def _exist(
    rows: Sequence[tf.IndexedSlices],
    tables: Sequence[Variable],
    names: Sequence[str],
) -> tf.Tensor:
    """Returns whether all rows exist, by an op that fails if not."""
    measured = ops.measure_gradients(
        list(map(slices.without_elements, rows)),
        rows=[table.shape[0] for table in tables],
        tables=names,
    )
    return tf.reduce_all(measured.finite)
