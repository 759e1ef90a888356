"""Lets rows of lazy tables catch up outside of a step."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_opt.python.functional import coasting
from tf_opt.python.functional.arithmetic import Flag, both
from tf_opt.python.keras_internals import Variable, path_of, tf_variable
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.state.table_modes import CATCH_UP
from tf_opt.python.optimizers.step import replicas, transfer
from tf_opt.python.optimizers.step.composed import Composed
from tf_opt.python.optimizers.step.context import Frame, StepContext
from tf_opt.python.optimizers.step.launch import launch
from tf_opt.python.optimizers.step.plan import Bucket, planned
from tf_opt.python.optimizers.values import validation
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.gradients import Gradient


def catch_up(
    context: StepContext,
    variables: Sequence[Variable],
    rows: Sequence[tf.Tensor] | None = None,
    enabled: Flag = True,
) -> list[tf.Operation]:
    """Lets rows catch up, or all rows of the tables if `rows` is None.

    In a graph it returns the ops that do it.
    """
    rule, state = context.rule, context.state
    rule.spec.check_coasts(rule.hyperparameters, context.weight_decay)
    if rows is not None and state.spec.waits_in_place:
        # Only decay moves them, and the tables know whether there was any.
        enabled = both(enabled, _has_decayed(state, variables))
        if enabled is False:
            return []
    plan = planned(context, variables, [True] * len(variables))
    context = context.replace(plan=plan)
    scalars, frame = context.scalars(), Frame(enabled=enabled, update=False)
    ops: list[tf.Operation] = []
    checks = context.check_numbers()
    for bucket in context.plan.buckets:
        own = None if rows is None else [rows[i] for i in bucket.positions]
        bucket = bucket._replace(rows_only=rows is not None)
        with (
            state.on_device(bucket.indices[0]),
            tf.control_dependencies(checks),
        ):
            grads = _no_slices(bucket) if bucket.op else ()
            step = bucket.step(context, grads, frame, scalars)
            if not bucket.op:
                Composed(context).catch_up(step, own)
                continue
            op = launch(context, step, own or ())
        if op is not None:
            ops.append(op)
    return ops


def _has_decayed(state: OptimizerState, variables: Sequence[Variable]) -> Flag:
    tables = [state.coasting[state.index_of(v)] for v in variables]
    found = access.on_host(
        tf.reduce_any(
            [coasting.has_decayed(access.value_of(table)) for table in tables]
        )
    )
    return bool(found) if isinstance(found, np.bool_) else found


def _no_slices(bucket: Bucket) -> list[tf.IndexedSlices]:
    return [
        tf.IndexedSlices(
            tf.zeros([0, *variable.shape[1:]], variable.dtype),
            tf.zeros([0], tf.int64),
        )
        for variable in bucket.variables
    ]


class UpToDateReads:
    """The tables whose rows catch up before the model reads them."""

    def __init__(self) -> None:
        self._ids: set[int] = set()
        self._are_all = False

    def add(self, tables: Variable | Sequence[Variable] | None) -> None:
        """Adds tables, also before `build`; None: all."""
        self._are_all = self._are_all or tables is None
        if not isinstance(tables, (list, tuple)):
            tables = [tables]
        self._ids.update(id(tf_variable(table)) for table in tables)

    def warn_of_others(
        self,
        context: StepContext,
        grads: Sequence[Gradient | None],
        variables: Sequence[Variable],
    ) -> None:
        """Warns, once, if a step has gradients of other tables that wait."""
        state = context.state
        stay = state.spec.waits_in_place and not context.decays
        if self._are_all or stay:
            return
        others = [
            variable
            for gradient, variable in zip(grads, variables, strict=True)
            if isinstance(gradient, tf.IndexedSlices)
            and state.waits(state.index_of(variable))
            and id(tf_variable(variable)) not in self._ids
        ]
        if others:
            self.add(others)
            warnings.warn(
                "Rows were read before they caught up, so training differs "
                f"from exact training: `lazy_mode={CATCH_UP!r}` needs the "
                "callback `tf_opt.callbacks.CatchUp()` in `fit`, or in your "
                "own loop, or for tables without a Keras `Embedding`, a call "
                "of `optimizer.catch_up(table, ids)` before the model reads "
                "the table. Received gradients of: "
                f"{list(map(path_of, others))}",
                stacklevel=2,
            )


def bring_up_to_date(
    context: StepContext,
    variables: Variable | Sequence[Variable] | None,
    rows: Any,
) -> None:
    """Lets tables or rows catch up where their state lives.

    Arguments and errors are those of `FusedOptimizer.catch_up`.
    """
    state = context.state
    tables, rows = _tables_and_rows(state, variables, rows)

    def run() -> None:
        parts = transfer.parts_of_rows(state, tables, rows)
        with transfer.moved(state, parts):
            catch_up(context, tables, rows)

    if tables and state.working_copies:
        access.once_for_all_replicas(run)
    elif tables:
        catch_up(context, tables, rows)


def _tables_and_rows(
    state: OptimizerState,
    variables: Variable | Sequence[Variable] | None,
    rows: Any,
) -> tuple[list[Variable], list[tf.Tensor] | None]:
    """Returns the tables that are to catch up, and rows of each; None: all."""
    if variables is None:
        variables = state.variables
    elif not isinstance(variables, (list, tuple)):
        variables, rows = [variables], None if rows is None else [rows]
    access.check_variables(variables, "variables")
    waiting = [
        k
        for k, variable in enumerate(variables)
        if state.waits(_index_of(state, variable))
    ]
    tables = [variables[k] for k in waiting]
    if rows is None:
        return tables, None
    if not isinstance(rows, (list, tuple)) or len(rows) != len(variables):
        raise ValueError(
            "`rows` must be a list with one tensor for each of the "
            f"{len(variables)} `variables`. Received: {rows!r}"
        )
    rows = [
        validation.as_rows(f"rows[{k}]", rows[k], variables[k]) for k in waiting
    ]
    # Replicas must write the same.
    return tables, replicas.gather_rows(rows) if rows else []


def _index_of(state: OptimizerState, variable: Variable) -> int:
    try:
        return state.index_of(variable)
    except KeyError as error:
        raise ValueError(
            "`variables` must be variables that the optimizer was built with. "
            f"Received: `{path_of(variable)}`"
        ) from error
