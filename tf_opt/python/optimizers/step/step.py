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
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.keras_internals import Variable
from tf_opt.python.keras_internals import is_overwritten_by_gradient
from tf_opt.python.optimizers.state import master_weights
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.state.rounding import Rounding
from tf_opt.python.optimizers.step import averaging
from tf_opt.python.optimizers.step import frame as frames
from tf_opt.python.optimizers.step import measuring
from tf_opt.python.optimizers.step import one_by_one
from tf_opt.python.optimizers.step import replicas
from tf_opt.python.optimizers.step import tables
from tf_opt.python.optimizers.step.composed import Composed
from tf_opt.python.optimizers.step.frame import Factors
from tf_opt.python.optimizers.step.frame import Frame
from tf_opt.python.optimizers.step.launch import launch
from tf_opt.python.optimizers.step.measuring import Measures
from tf_opt.python.optimizers.step.plan import Bucket
from tf_opt.python.optimizers.step.plan import Plan
from tf_opt.python.optimizers.step.settings import Settings
from tf_opt.python.optimizers.step.update_rule import Scalars
from tf_opt.python.optimizers.step.update_rule import UpdateRule
from tf_opt.python.optimizers.values import gradients
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.flags import Flag
from tf_opt.python.optimizers.values.flags import both
from tf_opt.python.optimizers.values.gradients import Gradient
from tf_opt.python.tensorflow_internals import inside_xla

# A bucket, its gradients and its factors.
_Part = tuple[Bucket, Sequence[Gradient], Factors]


def _after(
    operations: Sequence[tf.Operation],
) -> contextlib.AbstractContextManager:
    """Returns a context in which a graph's ops run only after `operations`."""
    if tf.executing_eagerly():
        return contextlib.nullcontext()
    graph = tf.compat.v1.get_default_graph()
    # Ops outside of a condition can't wait for ops inside of it.
    return tf.control_dependencies([x for x in operations if x.graph is graph])


class Step:
    """One step of an optimizer over some variables."""

    def __init__(
        self,
        rule: UpdateRule,
        settings: Settings,
        state: OptimizerState,
        plan: Plan,
        grads: Sequence[Gradient],
        variables: Sequence[Variable],
        *,
        learning_rate: Callable[[], Scalar],
        strategy: tf.distribute.Strategy,
        may_step: Flag = True,
    ) -> None:
        """Converts and checks all gradients, before anything is written.

        Args:
            rule: The rule.
            settings: The step's options.
            state: The optimizer's state.
            plan: The step's plan.
            grads: A gradient for each variable, as the user gave them.
            variables: The variables, as the user gave them.
            learning_rate: Returns the learning rate.
            strategy: The optimizer's strategy.
            may_step: Whether anything may change.
        """
        self._may_step = may_step
        self._rule = rule
        self._settings = settings
        self._state = state
        self._plan = plan
        self._learning_rate = learning_rate
        self._strategy = strategy
        self._variables = variables
        self._composed = Composed(rule, settings, state)
        # For each bucket, the rows of its accumulators that aren't zero.
        self._rows: list[list[tf.Tensor]] = [[] for _ in plan.buckets]
        # A graph's ops that find wrong gradients; later ops wait for them.
        self._launched: list[tf.Operation] = []
        self._checks = tables.check(plan, grads, variables)
        if self._checks:
            with _after(self._checks):
                grads = list(map(gradients.identity, grads))
        self._given = grads
        self._gradients: list[Any] = [None] * len(grads)
        for bucket in plan.buckets:
            for i in bucket.positions:
                self._gradients[i] = gradients.for_update(
                    grads[i],
                    plan.variables[i],
                    variables[i],
                    sparse=bucket.sparse,
                )

    def run(self) -> Flag:
        """Runs the step.

        Returns:
            Whether the step counts: False if it was skipped.
        """
        settings, state = self._settings, self._state
        if settings.accumulates and replicas.in_several():
            enabled = self._run_in_replicas()
        else:
            self._gradients = replicas.sum_gradients(
                self._plan, self._gradients
            )
            enabled = self._update(
                settings,
                self._gradients,
                frames.is_update(settings, state),
                both(self._may_step, self._rows_exist()),
            )
        with _after([*self._checks, *self._launched]):
            rounding = Rounding(settings.rounding, state)
            for variable in self._variables:
                master_weights.constrain(state, rounding, variable, enabled)
            state.count(enabled, self._may_step)
        return enabled

    # ---- Replicas that accumulate. ----

    def _run_in_replicas(self) -> Flag:
        """Accumulates in each replica; an update sums over the replicas.

        That sum is inside a condition, so it is computed once per update.
        """
        settings, state = self._settings, self._state
        if self._plan.has_sparse():
            raise ValueError(
                "`lazy_mode` must be False with `gradient_accumulation_steps` "
                "in several replicas, which look up different rows. "
                "Received: lazy_mode=True and gradient_accumulation_steps="
                f"{settings.micro_steps}"
            )
        enabled = both(self._may_step, self._rows_exist())
        if settings.skip_nonfinite:
            measures = self._measure(
                self._gradients, settings.gradient_scale, True, adds=False
            )
            # A gradient of one replica skips the step in all replicas.
            finite = access.in_all_replicas(measures.finite)
            enabled = both(enabled, finite)
        for bucket in self._plan.buckets:
            own = [self._gradients[i] for i in bucket.positions]
            self._composed.accumulate(
                bucket, own, settings.gradient_scale, enabled
            )
        is_update = both(enabled, frames.is_update(settings, state))
        replicas.when(is_update, self._update_with_shared_sums)
        if settings.use_ema:
            frame = frames.frame_of(settings, state, enabled=enabled)
            self._composed.average(range(len(state.variables)), frame)
        return enabled

    def _update_with_shared_sums(self) -> None:
        """Updates with the sums of all replicas' accumulators."""
        replicas.share_accumulated(self._state, self._plan)
        nothing = list(map(tf.zeros_like, self._plan.variables))
        settings = self._settings._replace(gradient_scale=1.0, use_ema=False)
        self._update(settings, nothing, True, True)

    # ---- Measure, update, commit. ----

    def _update(
        self,
        settings: Settings,
        grads: Sequence[Gradient],
        update: Flag,
        enabled: Flag,
    ) -> Flag:
        """Measures, updates and commits.

        Args:
            settings: The step's options, perhaps with some turned off.
            grads: The gradients.
            update: Whether the step updates, or only accumulates.
            enabled: Whether the step does anything.

        Returns:
            Whether the step counts: False if it was skipped.
        """
        self._rows = tables.accumulated_rows(
            settings, self._state, self._plan, update
        )
        measures = None
        if settings.skip_nonfinite or settings.needs_norms:
            # Gradients must be finite in every step; norms are an update's.
            measures = self._measure(
                grads,
                settings.gradient_scale,
                settings.skip_nonfinite or update,
                adds=settings.accumulates,
            )
        if settings.skip_nonfinite:
            enabled = both(enabled, measures.finite)
        frame = frames.frame_of(
            settings, self._state, update=update, enabled=enabled
        )
        if frame.averages:
            averaging.begin_tables(
                settings, self._state, self._plan, self._composed
            )
        self._launch_and_commit(grads, frame, measures)
        return enabled

    def _measure(
        self,
        grads: Sequence[Gradient],
        gradient_scale: Scalar,
        enabled: Flag,
        *,
        adds: bool,
    ) -> Measures:
        """Measures gradients; `adds` tells whether to add accumulators."""
        return measuring.measure(
            self._settings,
            self._state,
            self._plan,
            grads,
            accumulates=adds,
            rows=self._rows,
            gradient_scale=gradient_scale,
            enabled=enabled,
        )

    def _rows_exist(self) -> Flag:
        """Returns whether all rows of sparse gradients exist."""
        # Outside of XLA, the op that finds a wrong row stops all later ops.
        if not inside_xla():
            return True
        return tables.exist_inside_xla(
            self._settings,
            self._plan,
            self._given,
            self._gradients,
            self._variables,
        )

    def _launch_and_commit(
        self,
        grads: Sequence[Gradient],
        frame: Frame,
        measures: Measures | None,
    ) -> None:
        settings, state, rule = self._settings, self._state, self._rule
        commits = frame.commits
        rule.begin(state, self._plan.variables, commits)
        scalars = rule.scalars(
            self._learning_rate(), frames.update_count(settings, state)
        )
        composed: list[_Part] = []
        launched_dense: list[tf.Operation] = []
        averaged: set[int] = set()
        for k, bucket in enumerate(self._plan.buckets):
            own = [grads[i] for i in bucket.positions]
            factors = frames.factors_of(
                settings,
                state,
                bucket,
                frames.gradient_factors(settings, k, measures),
            )
            if bucket.runs_op:
                # A wrong row of an earlier launch must stop the later ones.
                with _after([*self._checks, *self._launched]):
                    op = launch(
                        rule,
                        settings,
                        state,
                        bucket,
                        own,
                        self._frame_of_launch(frame),
                        factors,
                        scalars,
                        self._rows[k],
                    )
                if op is not None:
                    (
                        self._launched if bucket.sparse else launched_dense
                    ).append(op)
            else:
                composed.append((bucket, own, factors))
            follows_here = bucket.runs_op or (
                bucket.sparse and not self._plan.one_by_one
            )
            if follows_here and not bucket.averages_later:
                averaged.update(bucket.indices)
        if composed:
            with _after([*self._checks, *self._launched]):
                self._compose(composed, frame, scalars)
        self._launched += launched_dense
        with _after([*self._checks, *self._launched]):
            if frame.averages:
                rest = averaging.remaining(
                    settings, state, self._plan, averaged
                )
                self._composed.average(rest, frame)
            shared = list(rule.next_shared(scalars))
            norm = state.unsaved.gradient_norm
            # Options changed after `build` may leave the norm unmeasured.
            if norm is not None and measures is not None:
                shared.append((norm, measures.global_norm))
            state.commit(shared, commits)
            if frame.accumulates:
                self._drop_other_sums(commits)

    def _frame_of_launch(self, frame: Frame) -> Frame:
        """Lets an op refuse a step while averages are swapped in.

        The number of the step is then negative. The op raises an error and
        writes nothing.
        """
        if self._may_step is True or "step" not in self._rule.op.numbers:
            return frame
        refused = tf.logical_not(self._may_step)
        enabled = tf.logical_or(frame.enabled, refused)
        return dataclasses.replace(frame, enabled=enabled)

    def _drop_other_sums(self, commits: Flag) -> None:
        """Empties the accumulators of variables without a gradient.

        An update begins a new sum for all variables, as in Keras.
        """
        state = self._state
        updated = {i for bucket in self._plan.buckets for i in bucket.indices}
        others = [
            accumulator
            for index, accumulator in enumerate(state.accumulators)
            if index not in updated
            and not is_overwritten_by_gradient(state.variables[index])
        ]
        if not others or commits is False:
            return

        def drop() -> None:
            for accumulator in others:
                zeros = tf.zeros(accumulator.shape, accumulator.dtype)
                access.assign(accumulator, zeros)

        if commits is True:
            drop()
        else:
            tf.cond(commits, drop, lambda: None)

    def _compose(
        self, parts: Sequence[_Part], frame: Frame, scalars: Scalars
    ) -> None:
        """Updates composed buckets, or only accumulates."""

        def update() -> None:
            if self._plan.one_by_one:
                self._update_one_by_one(parts, frame)
                return
            for bucket, grads, factors in parts:
                self._composed.update(bucket, grads, frame, factors, scalars)

        def accumulate() -> None:
            for bucket, grads, _ in parts:
                self._composed.accumulate(
                    bucket, grads, frame.gradient_scale, frame.enabled
                )
                if bucket.sparse and frame.averages:
                    self._composed.average_rows(bucket, grads, frame)

        if isinstance(frame.update, bool):
            (update if frame.update else accumulate)()
        else:
            tf.cond(frame.update, update, accumulate)

    def _update_one_by_one(self, parts: Sequence[_Part], frame: Frame) -> None:
        """Updates through `update_step`."""
        state = self._state
        variables = self._plan.variables
        finished: list[Any] = [None] * len(variables)
        learning_rate = self._learning_rate()
        learning_rates: list[Any] = [learning_rate] * len(variables)
        for bucket, grads, factors in parts:
            ready = self._composed.finished_gradients(
                bucket, grads, frame, factors
            )
            for k, i in enumerate(bucket.positions):
                finished[i] = gradients.cast(ready[k], variables[i].dtype)
                if self._settings.overrides_update_step and not isinstance(
                    factors.learning_rate, float
                ):
                    learning_rates[i] = factors.of(k).learning_rate * tf.cast(
                        learning_rate, tf.float64
                    )
        # A subclass may write any variable: if the step is skipped, all of
        # them get their old values back.
        kept = (
            [*variables, *state.list_all()] if frame.enabled is not True else []
        )
        before = [tf.identity(tf.convert_to_tensor(x)) for x in kept]
        one_by_one.update_one_by_one(
            self._settings.update_one,
            finished,
            variables,
            learning_rates,
            self._strategy,
        )
        for variable, old in zip(kept, before, strict=True):
            new = tf.convert_to_tensor(variable)
            access.assign(variable, tf.where(frame.enabled, new, old))
