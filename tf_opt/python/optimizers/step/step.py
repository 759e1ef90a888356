"""One step: from gradients to updated variables.

    measure   norms, and whether all gradients are finite, if an option needs it
    update    for each bucket a launch, or the composed implementation
    commit    counters and scalars that all variables share, in one place

Kernels read a flag to skip a step or to only accumulate, so nothing waits for a
device, and there is no condition around a step. Only the composed
implementation has a condition between accumulating and updating.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from tf_opt.python.functional.arithmetic import Flag, both, choose, cond
from tf_opt.python.keras_internals import Variable, is_overwritten_by_gradient
from tf_opt.python.optimizers.state import storage
from tf_opt.python.optimizers.step import measuring, replicas, transfer
from tf_opt.python.optimizers.step.catch_up import catch_up
from tf_opt.python.optimizers.step.composed import Composed
from tf_opt.python.optimizers.step.context import Frame, StepContext
from tf_opt.python.optimizers.step.launch import accumulated_rows, launch
from tf_opt.python.optimizers.step.plan import Bucket, BucketStep
from tf_opt.python.optimizers.values import gradients
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.gradients import Gradient
from tf_opt.python.tensorflow_internals import inside_xla


class Step:
    """One step of an optimizer over some variables."""

    def __init__(
        self,
        context: StepContext,
        grads: Sequence[Gradient],
        variables: Sequence[Variable],
        may_step: Flag,
    ) -> None:
        """Takes gradients and variables as the user gave them.

        `may_step` tells whether anything may change.
        """
        self._context = context
        self._grads = grads
        self._variables = variables
        self._may_step = may_step
        self._constrained = [x for x in variables if x.constraint is not None]
        # A graph's ops that find what is wrong, and launches: the ops that
        # later ops wait for.
        self._awaited: list[tf.Operation] = []

    @functools.cached_property
    def _composed(self) -> Composed:
        return Composed(self._context)

    def _after_awaited(self) -> AbstractContextManager:
        """Returns a context in which a graph's ops wait for earlier ones."""
        if tf.executing_eagerly():
            return contextlib.nullcontext()
        graph = tf.compat.v1.get_default_graph()
        # Ops outside of a condition can't wait for ops inside of it.
        return tf.control_dependencies(
            [x for x in self._awaited if x.graph is graph]
        )

    def run(self) -> Flag:
        """Runs the step.

        Returns:
            Whether the step counts: False if it was skipped.
        """
        context, grads = self._context, self._checked()
        if context.state.working_copies:
            return transfer.with_sums(context, grads, self._run_where_state_is)
        if context.accumulates_in_replicas:
            enabled = self._run_in_replicas(grads)
        else:
            if context.sums_replicas:
                grads = replicas.sum_gradients(context.plan, grads)
            update = context.is_update()
            enabled = self._update(grads, update, self._may_step)
        self._constrain(enabled)
        return self._count(enabled)

    def _checked(self) -> list[Gradient]:
        """Checks and converts all gradients, before anything is written.

        In a graph, ops check what isn't known while the step is traced.
        """
        state, plan = self._context.state, self._context.plan
        grads, variables = self._grads, self._variables
        self._awaited += self._context.check_numbers()
        for k, bucket in enumerate(plan.buckets):
            # A launch checks its rows before it writes, so those of the first
            # bucket are left to it, unless rows are moved before it runs. On a
            # GPU those of each bucket are, as the host would wait for a check.
            is_first = k == 0 or access.on_gpu(bucket.variables[0])
            checks_itself = is_first and bucket.op and bucket.sparse
            rows = not checks_itself or bool(state.working_copies)
            for i in () if inside_xla() else bucket.positions:
                self._awaited += gradients.check_when_run(
                    grads[i], variables[i], rows=rows
                )
        if self._awaited:
            with self._after_awaited():
                grads = list(map(gradients.identity, grads))
        # Replicas that accumulate don't launch the op.
        launches = not self._context.accumulates_in_replicas
        converted: list[Any] = [None] * len(grads)
        for bucket in plan.buckets:
            for i in bucket.positions:
                converted[i] = gradients.for_update(
                    grads[i],
                    plan.variables[i],
                    variables[i],
                    sparse=bucket.sparse,
                    for_op=launches and bucket.op is not None,
                )
        return converted

    def _constrain(self, enabled: Flag) -> None:
        """Applies the variables' constraints."""
        if not self._constrained:
            return
        with self._after_awaited():
            state, rounding = self._context.state, self._context.rounding()
            for variable in self._constrained:
                storage.constrain(state, rounding, variable, enabled)

    def _count(self, enabled: Flag) -> Flag:
        with self._after_awaited():
            self._context.state.count(enabled, self._may_step)
        return enabled

    def _run_where_state_is(self, grads: Sequence[Gradient]) -> Flag:
        """Runs the step where the state lives, with gradients from there."""
        context = self._context
        update = context.is_update()
        parts = transfer.parts_of_step(context, grads)
        # Not only updates move averages and apply constraints.
        every_step = context.use_ema or bool(self._constrained)
        with transfer.moved(context.state, parts, every_step or update):
            enabled = self._update(grads, update, self._may_step)
            self._constrain(enabled)
        return self._count(enabled)

    # ---- Replicas that accumulate. ----

    def _run_in_replicas(self, grads: Sequence[Gradient]) -> Flag:
        """Accumulates in each replica; an update sums over the replicas.

        That sum is inside a condition, so it is computed once per update.
        """
        context = self._context
        lazy = [
            name
            for bucket in context.plan.buckets
            if bucket.rows_only
            for name in bucket.names
        ]
        if lazy:
            raise ValueError(
                "`lazy_mode` must be False with `gradient_accumulation_steps` "
                "in several replicas, which look up different rows. "
                f"Received: gradient_accumulation_steps={context.micro_steps} "
                f"and the lazy tables {lazy}"
            )
        enabled = self._may_step
        if context.skip_nonfinite:
            measures = measuring.measure(
                context,
                grads,
                accumulated_rows(context, False),
                accumulates=False,
                enabled=True,
            )
            # A gradient of one replica skips the step in all replicas.
            finite = access.in_all_replicas(measures.finite)
            enabled = both(enabled, finite)
        for bucket in context.plan.buckets:
            own = [grads[i] for i in bucket.positions]
            self._composed.accumulate(
                bucket, own, context.gradient_scale, enabled
            )
        is_update = both(enabled, context.is_update())
        replicas.when(is_update, self._update_with_shared_sums)
        if context.use_ema:
            frame = context.frame(enabled=enabled)
            self._composed.average_others((), frame)
        return enabled

    def _update_with_shared_sums(self) -> None:
        """Updates with the sums of all replicas' accumulators."""
        context = self._context.replace(gradient_scale=1.0, use_ema=False)
        replicas.share_accumulated(context.state, context.plan)
        nothing = list(map(tf.zeros_like, context.plan.variables))
        step = Step(context, nothing, self._variables, self._may_step)
        step._update(nothing, True, True)

    # ---- Measure, update, commit. ----

    def _update(
        self, grads: Sequence[Gradient], update: Flag, enabled: Flag
    ) -> Flag:
        """Measures, updates and commits; flags as in `Frame`.

        Returns:
            Whether the step counts: False if it was skipped.
        """
        context = self._context
        # For each bucket, the rows of its accumulators that aren't zero.
        rows = accumulated_rows(context, update)
        measures = None
        if context.measures:
            if not context.accumulates:
                grads = self._merged(grads)
            measures = measuring.measure(
                context,
                grads,
                rows,
                accumulates=context.accumulates,
                # Gradients must be finite in every step; norms are an update's.
                enabled=context.skip_nonfinite or update,
            )
        if context.skip_nonfinite:
            enabled = both(enabled, measures.finite)
        frame = context.frame(update=update, enabled=enabled)
        self._launch_and_commit(grads, rows, frame, measures)
        return enabled

    def _merged(self, grads: Sequence[Gradient]) -> list[Gradient]:
        """Sums repeated rows once for measuring and updating by the op."""
        result = list(grads)
        for bucket in self._context.plan.buckets:
            if not (bucket.sparse and bucket.op):
                continue
            own = [grads[i] for i in bucket.positions]
            with self._context.state.on_device(bucket.indices[0]):
                slices = bucket.merged(own)
            for i, gradient in zip(bucket.positions, slices, strict=True):
                result[i] = gradient
        return result

    def _launch_and_commit(
        self,
        grads: Sequence[Gradient],
        rows: Sequence[Sequence[tf.Tensor]],
        frame: Frame,
        measures: measuring.Measures | None,
    ) -> None:
        context = self._context
        rule, state, plan = context.rule, context.state, context.plan
        commits = both(frame.enabled, frame.update)
        scalars, op_frame = context.scalars(), self._frame_of_launch(frame)
        composed: list[BucketStep] = []
        # Launches that the next ones don't wait for.
        launched: list[tf.Operation] = []
        averaged: set[int] = set()
        for k, bucket in enumerate(plan.buckets):
            own = [grads[i] for i in bucket.positions]
            # The mean over micro-steps, clipped.
            factor = 1.0 / context.micro_steps
            if measures is not None:
                factor = factor * measuring.clipping(context, k, measures)
            own_frame = op_frame if bucket.op else frame
            step = bucket.step(context, own, own_frame, scalars, factor)
            if not bucket.op:
                composed.append(step)
                continue
            if state.since and not bucket.sparse:
                self._catch_up(bucket, frame)
            # A wrong row of an earlier launch must stop the later ones.
            with self._after_awaited(), state.on_device(bucket.indices[0]):
                op = launch(context, step, rows[k])
            if op is not None:
                may_fail = bucket.sparse and not state.working_copies
                later = self._awaited if may_fail else launched
                later.append(op)
            if not plan.repeats:
                averaged.update(bucket.indices)
        if composed:
            with self._after_awaited():
                self._compose(composed, frame)
        self._awaited += launched
        with self._after_awaited():
            if frame.averages:
                self._composed.average_others(averaged, frame)
            shared = rule.next_shared(scalars, state, plan.variables)
            norm = state.unsaved.gradient_norm
            # Options changed after `build` may leave the norm unmeasured.
            if norm is not None and measures is not None:
                shared.append((norm, measures.global_norm))
            state.commit(shared, commits)
            if frame.accumulates:
                self._drop_other_sums(commits)

    def _catch_up(self, bucket: Bucket, frame: Frame) -> None:
        """Lets all rows of tables catch up whose gradients are dense."""
        waits = map(self._context.state.waits, bucket.indices)
        tables = list(itertools.compress(bucket.variables, waits))
        if tables:
            with self._after_awaited():
                self._awaited += catch_up(
                    self._context, tables, enabled=frame.enabled
                )

    def _frame_of_launch(self, frame: Frame) -> Frame:
        """Lets an op refuse a step while averages are swapped in.

        The number of the step is then negative, and so is `ema_momentum`, for
        rules that don't count steps. The op raises an error and writes nothing.
        """
        if self._may_step is True:
            return frame
        refused = tf.logical_not(self._may_step)
        return dataclasses.replace(
            frame,
            enabled=tf.logical_or(frame.enabled, refused),
            ema_momentum=choose(refused, -1.0, frame.ema_momentum),
        )

    def _drop_other_sums(self, commits: Flag) -> None:
        """Empties the accumulators of variables without a gradient.

        An update begins a new sum for all variables, as in Keras.
        """
        state, plan = self._context.state, self._context.plan
        updated = {i for bucket in plan.buckets for i in bucket.indices}
        others = [
            accumulator
            for index, accumulator in enumerate(state.accumulators)
            if index not in updated
            and not is_overwritten_by_gradient(state.variables[index])
        ]

        def drop() -> None:
            for accumulator in others:
                zeros = tf.zeros(accumulator.shape, accumulator.dtype)
                access.assign(accumulator, zeros)

        if others:
            cond(commits, drop)

    def _compose(self, steps: Sequence[BucketStep], frame: Frame) -> None:
        """Updates composed buckets, or only accumulates."""

        def update() -> None:
            for step in steps:
                with self._context.state.on_device(step.bucket.indices[0]):
                    self._composed.update(step)

        def accumulate() -> None:
            scale, enabled = frame.gradient_scale, frame.enabled
            for bucket, _, grads, *_ in steps:
                with self._context.state.on_device(bucket.indices[0]):
                    self._composed.accumulate(bucket, grads, scale, enabled)

        cond(frame.update, update, accumulate)
