"""One step: from gradients to updated variables.

    measure   norms, and whether all is finite, if something asks for it
    update    a launch, or the composed implementation, for each bucket, with
              what it does around its rule
    commit    what all variables share, in one place

A step that is skipped, or that only accumulates, is one whose kernels read a
flag: nothing waits for a device, and there is no condition around it. (The
composed implementation has one between accumulating and updating.)
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import tensorflow as tf

from tf_opt.python import dispatch
from tf_opt.python import ops
from tf_opt.python.functional import slices
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.keras_internals import Variable
from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.ops.measure_gradients import OP_NAME
from tf_opt.python.ops.measure_gradients import SPARSE_OP_NAME
from tf_opt.python.ops.resource_apply import resource_apply
from tf_opt.python.ops.step_frame import BARE
from tf_opt.python.ops.step_frame import StepFrame
from tf_opt.python.optimizers import accumulated_rows
from tf_opt.python.optimizers import composed_step
from tf_opt.python.optimizers import gradients
from tf_opt.python.optimizers import local_state
from tf_opt.python.optimizers import rounding
from tf_opt.python.optimizers.flags import Flag
from tf_opt.python.optimizers.flags import both
from tf_opt.python.optimizers.flags import is_zero
from tf_opt.python.optimizers.gradients import Gradient
from tf_opt.python.optimizers.gradients import GradientLike
from tf_opt.python.optimizers.step_plan import Bucket
from tf_opt.python.tensorflow_internals import inside_xla

if TYPE_CHECKING:
    from tf_opt.python.optimizers.fused_optimizer import FusedOptimizer


@dataclasses.dataclass(frozen=True)
class Measures:
    """What was measured of a step's gradients, before clipping.

    Attributes:
        norms: For each bucket, the norms of its gradients.
        global_norm: The norm of all of them.
        finite: Whether all are finite.
    """

    norms: tuple[tf.Tensor | np.ndarray, ...]
    global_norm: tf.Tensor | np.ndarray
    finite: Flag


# A bucket, its gradients, its frame, and the rows of what was accumulated.
_ComposedPart = tuple[
    Bucket, Sequence[Gradient], StepFrame, Sequence[tf.Tensor] | None
]


def _after(
    operations: Sequence[tf.Operation],
) -> contextlib.AbstractContextManager:
    """Where a graph's ops run only after these."""
    if tf.executing_eagerly():
        return contextlib.nullcontext()
    graph = tf.compat.v1.get_default_graph()
    # What is inside a condition can't be waited for outside.
    return tf.control_dependencies([x for x in operations if x.graph is graph])


def _functions_of(x: Any) -> tuple[Callable, Callable, Callable]:
    """Square root, sum, and whether all is true: TensorFlow's or NumPy's."""
    if tf.is_tensor(x):
        return tf.sqrt, tf.reduce_sum, tf.reduce_all
    # With Python's bool, as flags are.
    return np.sqrt, np.sum, lambda flags: bool(np.all(flags))


def _are_found(
    rows: Sequence[tf.IndexedSlices],
    tables: Sequence[Variable],
    names: Sequence[str],
) -> tf.Tensor:
    """Whether all rows that are said are some of their tables; by an op."""
    measured = ops.measure_gradients(
        list(map(slices.without_elements, rows)),
        rows=[table.shape[0] for table in tables],
        tables=names,
    )
    return tf.reduce_all(measured.finite)


def _maximum(x: Any, bound: float) -> Any:
    """The greater one of each; a NaN stays one."""
    return (tf.maximum if tf.is_tensor(x) else np.maximum)(x, bound)


class Step:
    """One step of an optimizer over some variables."""

    def __init__(
        self,
        optimizer: FusedOptimizer,
        grads: Sequence[GradientLike],
        variables: Sequence[Variable],
        *,
        gradient_scale: Scalar,
        skips_nonfinite: bool,
        enabled: Flag,
    ) -> None:
        self._optimizer = optimizer
        self._enabled = enabled
        self._gradient_scale = gradient_scale
        self._skips_nonfinite = skips_nonfinite
        self._micro_steps = optimizer.gradient_accumulation_steps or 1
        # What must have found no error before anything else is done.
        self._checks: list[tf.Operation] = []
        self._launched: list[tf.Operation] = []
        # Replicas that accumulate have dense sums to add up, unless only the
        # rows that occur count.
        may_be_sparse = optimizer.lazy_mode or not self._replicas_accumulate()
        self._plan = optimizer._plan_of(
            variables,
            [
                may_be_sparse
                and gradients.is_sparse(gradient, variable, optimizer.lazy_mode)
                for gradient, variable in zip(grads, variables, strict=True)
            ],
        )
        are_sparse = [False] * len(variables)
        for bucket in self._plan.buckets:
            for i in bucket.positions:
                are_sparse[i] = bucket.sparse
                self._check_rows(bucket, grads[i], variables[i])
        if self._checks:
            with _after(self._checks):
                grads = list(map(gradients.identity, grads))
        # Of these XLA leaves wrong rows out; elsewhere they have been checked.
        self._made_dense = [
            (gradient, variable)
            for gradient, variable, sparse in zip(
                grads, variables, are_sparse, strict=True
            )
            if inside_xla()
            and isinstance(gradient, tf.IndexedSlices)
            and not sparse
        ]
        # All gradients before the first launch: a wrong one must not leave
        # half a step.
        self._gradients = [
            gradients.for_update(gradient, variable, known_as, sparse=sparse)
            for gradient, variable, known_as, sparse in zip(
                grads, self._plan.variables, variables, are_sparse, strict=True
            )
        ]

    def _check_rows(
        self, bucket: Bucket, gradient: GradientLike, known_as: Variable
    ) -> None:
        """Checks a sparse gradient, if no op of ours will do that."""
        if not isinstance(gradient, tf.IndexedSlices):
            return
        op_checks = bucket.sparse and bucket.lists is not None
        if not op_checks or self._replicas_accumulate():
            self._checks += gradients.check_rows(
                gradient, tf_variable(known_as), known_as
            )

    def run(self) -> Flag:
        """Runs it.

        Returns:
            Whether it was one: a tensor of False if it was skipped.
        """
        optimizer = self._optimizer
        accumulates = self._micro_steps > 1
        if self._replicas_accumulate():
            return self._run_in_replicas()
        frame = self._averaging(optimizer.use_ema)
        if accumulates:
            update = optimizer._is_update_step()
            frame = dataclasses.replace(frame, update=update)
        return self._update(
            self._sum_over_replicas(self._gradients),
            dataclasses.replace(frame, gradient_scale=self._gradient_scale),
            accumulates=accumulates,
        )

    def after_launches(self) -> contextlib.AbstractContextManager:
        """Where a graph's ops run only after a launch that found no error.

        Otherwise a graph, which orders the uses of each variable, would count
        a step whose gradients were wrong.
        """
        return _after([*self._checks, *self._launched])

    def _replicas_accumulate(self) -> bool:
        """Whether each of several replicas adds up gradients of its own."""
        return (
            self._micro_steps > 1
            and local_state.in_replica()
            and tf.distribute.get_strategy().num_replicas_in_sync > 1
        )

    def _averaging(self, averages: bool) -> StepFrame:
        """A frame that averages, or doesn't."""
        if not averages:
            return BARE
        momentum, overwrite = self._optimizer._averaging()
        return StepFrame(
            averages=self._optimizer._model_variables_moving_average,
            ema_momentum=momentum,
            overwrite_with_average=overwrite,
        )

    # ---- Replicas that accumulate. ----

    def _run_in_replicas(self) -> Flag:
        """Each replica adds up its own gradients; an update sums the sums.

        The sum over replicas is formed once for each update: in a condition.
        """
        optimizer = self._optimizer
        if inside_xla() and self._tables():
            raise ValueError(
                "XLA can't compile `lazy_mode=True` with "
                "`gradient_accumulation_steps` in several replicas: they have "
                "different numbers of rows. Leave out `jit_compile=True`, or "
                "one of the two."
            )
        enabled: Flag = True
        if self._skips_nonfinite:
            measures = self._measure(
                self._gradients, StepFrame(gradient_scale=self._gradient_scale)
            )
            # One replica's gradients are enough to skip the step in all.
            finite = local_state.in_all_replicas(measures.finite)
            enabled = both(self._enabled, finite)
        enabled = both(enabled, self._finds_rows_made_dense())
        update = optimizer._is_update_step()
        tables = self._tables()
        rows, found = (
            part(optimizer, tables) if tables else {}
            for part in (accumulated_rows.noted, accumulated_rows.find)
        )
        for bucket in self._plan.buckets:
            own = [self._gradients[i] for i in bucket.positions]
            composed_step.accumulate(
                optimizer, bucket, own, self._gradient_scale, enabled
            )
            if not bucket.sparse:
                continue
            for index, gradient in zip(bucket.indices, own, strict=True):
                added = tf.cast(gradient.indices, tf.int64)
                added = accumulated_rows.all_if(enabled, added)
                # Those of all replicas, which so stay the same.
                added = slices.rows_of_all_replicas(
                    tf.concat([found[index], added], axis=0)
                )
                rows[index] = tf.concat([rows[index], added], axis=0)
        if tables:
            accumulated_rows.note(optimizer, rows, self._dense(), enabled)
        is_update = both(enabled, update)
        optimizer._when(is_update, self._update_with_accumulated)
        if optimizer.use_ema:
            self._average_in_replicas(enabled)
        if tables:
            updated = sorted({*tables, *self._dense()})
            accumulated_rows.empty(optimizer, updated, is_update)
        return enabled

    def _average_in_replicas(self, enabled: Flag) -> None:
        optimizer = self._optimizer
        frame = dataclasses.replace(self._averaging(True), enabled=enabled)
        self._begin_averages_of_rows()
        tables = self._tables()
        for index in tables:
            rows = tf.unique(accumulated_rows.read(optimizer, index)).y
            composed_step.average(optimizer, [index], frame, rows)
        composed_step.average(optimizer, self._averaged_whole(tables), frame)

    def _tables(self) -> list[int]:
        """Where the variables stand of which rows are updated alone."""
        if not self._optimizer.lazy_mode:
            return []
        return sorted(
            {i for bucket, _, i in self._positions() if bucket.sparse}
        )

    def _dense(self) -> set[int]:
        """Where those stand that have a dense gradient."""
        return {i for bucket, _, i in self._positions() if not bucket.sparse}

    def _averaged_whole(self, averaged: Iterable[int]) -> list[int]:
        """Where the variables stand whose averages are still to follow.

        Args:
            averaged: Of which they have followed.
        """
        optimizer = self._optimizer
        # In lazy mode what has no gradient doesn't occur.
        indices = (
            self._dense()
            if optimizer.lazy_mode
            else set(range(len(optimizer._trainable_variables)))
        )
        return sorted(indices - set(averaged))

    def _update_with_accumulated(self) -> None:
        """Updates with the sums of all replicas, as if all were one's own."""
        optimizer = self._optimizer
        own: list[Any] = [None] * len(self._gradients)
        nothing: list[Any] = [None] * len(self._gradients)
        rows: list[Any] = [None] * len(self._gradients)
        for bucket, i, index in self._positions():
            variable = self._plan.variables[i]
            accumulated = tf_variable(optimizer._accumulated_gradients[index])
            # Some strategies ask a tensor where its sum is to be, and inside a
            # condition those that were only read don't say.
            with tf.device(variable.device):
                if bucket.sparse:
                    noted = accumulated_rows.read(optimizer, index)
                    rows[i] = tf.unique(noted).y
                    own[i] = tf.gather(accumulated, rows[i])
                    nothing[i] = slices.empty(variable)
                else:
                    own[i] = tf.identity(tf.convert_to_tensor(accumulated))
                    nothing[i] = tf.zeros_like(variable)
        sums = self._sum_over_replicas(own)
        for _, i, index in self._positions():
            accumulator = optimizer._accumulated_gradients[index]
            if rows[i] is None:
                local_state.assign(accumulator, sums[i])
            else:
                local_state.assign_rows(accumulator, rows[i], sums[i])
        self._update(
            nothing,
            BARE,
            accumulates=True,
            rows={
                index: rows[i]
                for bucket, i, index in self._positions()
                if bucket.sparse
            },
        )

    def _positions(self) -> Iterator[tuple[Bucket, int, int]]:
        """Of each variable its bucket, and its places in step and optimizer."""
        for bucket in self._plan.buckets:
            for position, index in zip(
                bucket.positions, bucket.indices, strict=True
            ):
                yield bucket, position, index

    def _sum_over_replicas(
        self, grads: Sequence[Gradient]
    ) -> Sequence[Gradient]:
        """In a replica, the sums: all that replicas share.

        Of slices the rows of all replicas, one replica's after the other's.
        """
        if not local_state.in_replica():
            return grads
        summed = list(grads)
        for bucket in self._plan.buckets:
            sums = self._optimizer._sum_over_replicas(
                [grads[i] for i in bucket.positions], bucket.variables
            )
            for i, total in zip(bucket.positions, sums, strict=True):
                summed[i] = total
        return summed

    # ---- Measure, update, commit. ----

    def _update(
        self,
        grads: Sequence[Gradient],
        frame: StepFrame,
        *,
        accumulates: bool,
        rows: dict[int, tf.Tensor] | None = None,
    ) -> Flag:
        """Measures, updates and commits.

        Args:
            grads: The gradients.
            frame: What is known of what is done around the rule.
            accumulates: Whether there are accumulators.
            rows: Of which rows of tables; None: of those that were written
                down.
        """
        optimizer = self._optimizer
        tables = self._tables() if accumulates and rows is None else []
        if tables:
            rows = self._accumulated_before(tables)
        rows = self._of_buckets(rows or {})
        measures = None
        if self._skips_nonfinite or optimizer._needs_norms():
            measures = self._measure(
                grads, frame, accumulates=accumulates, rows=rows
            )
        enabled = frame.enabled
        if self._skips_nonfinite:
            # Measuring finds a wrong row too.
            enabled = both(self._enabled, measures.finite)
        elif inside_xla():
            enabled = self._finds_rows(grads)
        enabled = both(enabled, self._finds_rows_made_dense())
        frame = dataclasses.replace(frame, enabled=enabled)
        commits = both(frame.enabled, frame.update)
        clip_value = float(optimizer.clipvalue or 0)
        # As Keras, which doesn't clip by what is negative.
        if clip_value > 0:
            frame = dataclasses.replace(frame, clip_value=clip_value)
        optimizer._begin_step(self._plan.variables, commits)
        scalars = optimizer._scalars(
            optimizer.learning_rate, optimizer._update_count()
        )

        if frame.averages:
            self._begin_averages_of_rows()
        composed = []
        dense: list[tf.Operation] = []
        averaged: set[int] = set()
        for k, bucket in enumerate(self._plan.buckets):
            own = [grads[i] for i in bucket.positions]
            own_frame = self._frame_of(bucket, k, frame, measures)
            if self._is_updated_again(k):
                # An average follows once, after the last update.
                own_frame = dataclasses.replace(
                    own_frame, averages=(), overwrite_with_average=False
                )
            if bucket.lists is None:
                composed.append((bucket, own, own_frame, rows[k]))
                if not bucket.sparse or optimizer._updates_one_by_one():
                    continue
            else:
                # A wrong row that the first ones find must stop the others.
                with self.after_launches():
                    launched = launch(
                        optimizer,
                        bucket,
                        own,
                        own_frame,
                        scalars,
                        accumulates,
                        accumulated_rows=rows[k] or (),
                    )
                if bucket.sparse and launched is not None:
                    self._launched.append(launched)
                elif launched is not None:
                    dense.append(launched)
            if own_frame.averages:
                averaged.update(bucket.indices)
        if composed:
            with self.after_launches():
                self._compose(composed, scalars, accumulates)
        self._launched += dense
        with self.after_launches():
            self._commit(frame, averaged, measures, scalars, commits)
            if tables and not inside_xla():
                self._note_rows(grads, frame, rows)
            if accumulates:
                self._drop_other_sums(commits)
        return frame.enabled

    def _drop_other_sums(self, commits: Flag) -> None:
        """Empties the accumulators of variables without a gradient.

        An update begins a new sum for all variables, as in Keras.
        """
        optimizer = self._optimizer
        updated = {index for _, _, index in self._positions()}
        others = sorted(
            set(range(len(optimizer._accumulated_gradients))) - updated
        )
        if not others or commits is False:
            return

        def drop() -> None:
            for index in others:
                accumulator = optimizer._accumulated_gradients[index]
                zeros = tf.zeros(accumulator.shape, accumulator.dtype)
                local_state.assign(accumulator, zeros)

        if commits is True:
            drop()
        else:
            tf.cond(commits, drop, lambda: None)
        if optimizer._unlisted.accumulated_until is not None:
            accumulated_rows.empty(optimizer, others, commits)

    def _commit(
        self,
        frame: StepFrame,
        averaged: set[int],
        measures: Measures | None,
        scalars: dict[str, Any],
        commits: Flag,
    ) -> None:
        """Does what follows the launches."""
        optimizer = self._optimizer
        if frame.averages:
            rest = self._averaged_whole(averaged)
            composed_step.average(optimizer, rest, frame)
        optimizer._commit(
            [
                *optimizer._next_shared(**scalars),
                *optimizer._next_gradient_norm(measures),
            ],
            commits,
        )

    def _finds_rows(self, grads: Sequence[Gradient]) -> Flag:
        """Whether the rows that ops are given are some of their tables: true.

        If not it is an error. XLA keeps no order but that of what needs what: a
        step that needs this has written nothing and isn't counted then.
        """
        found: Flag = True
        for bucket in self._plan.buckets:
            if not bucket.sparse or bucket.lists is None:
                continue
            are_found = _are_found(
                [grads[i] for i in bucket.positions],
                bucket.variables,
                bucket.names,
            )
            found = both(found, are_found)
        return found

    def _finds_rows_made_dense(self) -> Flag:
        """The same of slices that became dense."""
        found: Flag = True
        for gradient, variable in self._made_dense:
            if dispatch.could_run_custom_op(
                self._optimizer.implementation,
                SPARSE_OP_NAME,
                gradient.values.dtype,
                tf_variable(variable).device,
            ):
                names = [gradients.path_of(variable)]
                found = both(found, _are_found([gradient], [variable], names))
        return found if found is True else local_state.in_all_replicas(found)

    def _accumulated_before(
        self, tables: Iterable[int]
    ) -> dict[int, tf.Tensor]:
        """For tables the rows of what was accumulated before this step.

        XLA must know how long a list is: there ops are given what is found,
        and the composed implementation goes over whole tables.
        """
        optimizer = self._optimizer
        if not inside_xla():
            return accumulated_rows.before(optimizer, tables)
        return {
            index: accumulated_rows.look_for(optimizer, index)
            for bucket in self._plan.buckets
            for index in bucket.indices
            if bucket.sparse and bucket.lists is not None
        }

    def _of_buckets(
        self, rows: dict[int, tf.Tensor]
    ) -> list[list[tf.Tensor] | None]:
        """For each bucket the rows of its tables; None where there are none.

        A table that is updated twice has them in the first update.
        """
        known = set(rows)
        left = dict(rows)
        nothing = tf.zeros([0], tf.int64)
        return [
            [left.pop(index, nothing) for index in bucket.indices]
            if bucket.sparse and known.issuperset(bucket.indices)
            else None
            for bucket in self._plan.buckets
        ]

    def _note_rows(
        self,
        grads: Sequence[Gradient],
        frame: StepFrame,
        rows: Sequence[Sequence[tf.Tensor] | None],
    ) -> None:
        noted: dict[int, list[tf.Tensor]] = {}
        for bucket, before in zip(self._plan.buckets, rows, strict=True):
            if not bucket.sparse:
                continue
            for i, index, old in zip(
                bucket.positions, bucket.indices, before, strict=True
            ):
                added = tf.cast(grads[i].indices, tf.int64)
                added = accumulated_rows.all_if(frame.enabled, added)
                noted.setdefault(index, []).extend([old, added])
        accumulated_rows.note(
            self._optimizer,
            {index: tf.concat(each, axis=0) for index, each in noted.items()},
            self._dense(),
            frame.enabled,
            empties=frame.update,
        )

    def _begin_averages_of_rows(self) -> None:
        """In the first step: a row's average begins before it occurs."""
        optimizer = self._optimizer
        if not optimizer.lazy_mode:
            return
        averages = optimizer._model_variables_moving_average
        indices = [
            i
            for i in range(len(averages))
            if averages[i] is not None and i not in self._dense()
        ]

        def begin() -> None:
            # Of which nothing stays: it becomes the variable.
            composed_step.average(optimizer, indices, BARE)

        is_first = is_zero(local_state.number(optimizer._iterations))
        if isinstance(is_first, bool):
            if is_first:
                begin()
        else:
            tf.cond(is_first, begin, lambda: None)

    def _is_updated_again(self, k: int) -> bool:
        """Whether a later bucket has a variable of the k-th one too."""
        indices = set(self._plan.buckets[k].indices)
        return any(
            not indices.isdisjoint(later.indices)
            for later in self._plan.buckets[k + 1 :]
        )

    def _measure(
        self,
        grads: Sequence[Gradient],
        frame: StepFrame,
        *,
        accumulates: bool = False,
        rows: Sequence[Sequence[tf.Tensor] | None] = (),
    ) -> Measures:
        optimizer = self._optimizer
        norms, squares, finite = [], [], []
        for k, bucket in enumerate(self._plan.buckets):
            own = [grads[i] for i in bucket.positions]
            arguments = {
                "gradient_scale": frame.gradient_scale,
                # Finite they must be in every step; norms are an update's.
                "enabled": self._skips_nonfinite or frame.update,
            }
            if bucket.lists is None or not self._op_measures(bucket):
                measured = composed_step.measure(
                    optimizer,
                    bucket,
                    own,
                    accumulates=accumulates,
                    rows=rows[k] if rows else None,
                    **arguments,
                )
            else:
                if bucket.sparse:
                    arguments.update(
                        rows=[x.shape[0] for x in bucket.variables],
                        lazy_mode=optimizer.lazy_mode,
                        accumulated_rows=(rows[k] if rows else None) or (),
                        tables=bucket.names,
                    )
                accumulators = bucket.lists["accumulators"]
                measured = ops.measure_gradients(
                    own, accumulators if accumulates else (), **arguments
                )
            sums = local_state.on_host(measured.sums_of_squares)
            root, total, all_ = _functions_of(sums)
            norms.append(root(sums) / self._micro_steps)
            squares.append(total(sums))
            finite.append(all_(local_state.on_host(measured.finite)))
        root, total, all_ = _functions_of(squares[0])
        return Measures(
            norms=tuple(norms),
            global_norm=root(total(squares)) / self._micro_steps,
            finite=all_(finite),
        )

    def _op_measures(self, bucket: Bucket) -> bool:
        """Whether the custom op can measure a bucket's gradients too."""
        variable = bucket.variables[0]
        return dispatch.could_run_custom_op(
            self._optimizer.implementation,
            SPARSE_OP_NAME if bucket.sparse else OP_NAME,
            variable.dtype,
            variable.device,
        )

    # A norm that is infinite makes a factor that is no number.
    @np.errstate(invalid="ignore")
    def _frame_of(
        self,
        bucket: Bucket,
        k: int,
        frame: StepFrame,
        measures: Measures | None,
    ) -> StepFrame:
        optimizer = self._optimizer
        factors: Scalar = 1.0 / self._micro_steps
        if optimizer.clipnorm and optimizer.clipnorm > 0:
            bound = float(optimizer.clipnorm)
            factors *= bound / _maximum(measures.norms[k], bound)
        elif optimizer.global_clipnorm and optimizer.global_clipnorm > 0:
            bound = float(optimizer.global_clipnorm)
            norm = measures.global_norm
            # Where it is no number no gradient is one, as in Keras.
            factors *= bound / _maximum(norm, bound) + (norm - norm)
        return dataclasses.replace(
            frame,
            gradient_factors=factors,
            learning_rate_factors=optimizer._learning_rate_factors(bucket),
        )

    def _compose(
        self,
        parts: Sequence[_ComposedPart],
        scalars: dict[str, Any],
        accumulates: bool,
    ) -> None:
        optimizer = self._optimizer

        def update() -> None:
            if optimizer._updates_one_by_one():
                self._update_one_by_one(parts, accumulates)
                return
            for bucket, grads, frame, rows in parts:
                composed_step.update(
                    optimizer,
                    bucket,
                    grads,
                    frame,
                    scalars,
                    accumulates=accumulates,
                    rows=rows,
                )

        def accumulate() -> None:
            for bucket, grads, frame, rows in parts:
                scale, enabled = frame.gradient_scale, frame.enabled
                composed_step.accumulate(
                    optimizer, bucket, grads, scale, enabled
                )
                if bucket.sparse and frame.averages:
                    composed_step.average_rows(
                        optimizer, bucket, grads, frame, rows
                    )

        flag = parts[0][2].update
        if isinstance(flag, bool):
            (update if flag else accumulate)()
        else:
            tf.cond(flag, update, accumulate)

    def _update_one_by_one(
        self,
        parts: Sequence[_ComposedPart],
        accumulates: bool,
    ) -> None:
        """Through `update_step`, which may be anybody's."""
        optimizer = self._optimizer
        finished: list[Any] = [None] * len(self._gradients)
        for bucket, grads, frame, rows in parts:
            ready = composed_step.finished_gradients(
                optimizer,
                bucket,
                grads,
                frame,
                accumulates=accumulates,
                rows=rows,
            )
            for position, gradient, variable in zip(
                bucket.positions, ready, bucket.variables, strict=True
            ):
                finished[position] = gradients.cast(gradient, variable.dtype)
        variables = self._plan.variables
        enabled = parts[0][2].enabled
        # What it may write, nobody knows: if the step is skipped, all of it
        # becomes again what it was.
        kept = [*variables, *optimizer.variables] if enabled is not True else []
        before = [tf.identity(tf.convert_to_tensor(x)) for x in kept]
        if optimizer._decays_before_the_step():
            optimizer._decay(variables)
        optimizer._update_one_by_one(
            finished, variables, optimizer._learning_rates_of(variables)
        )
        for variable, old in zip(kept, before, strict=True):
            local_state.assign(
                variable, tf.where(enabled, tf.convert_to_tensor(variable), old)
            )


def launch(
    optimizer: FusedOptimizer,
    bucket: Bucket,
    grads: Sequence[Gradient],
    frame: StepFrame,
    scalars: dict[str, Any],
    accumulates: bool = False,
    accumulated_rows: Sequence[tf.Tensor] = (),
) -> tf.Operation | None:
    """Updates a bucket's variables and slots by the custom op."""
    op = optimizer._op
    hyperparameters = optimizer._hyperparameters()
    return resource_apply(
        op,
        {name: bucket.lists[name] for name in ("variables", *op.slots)},
        grads,
        numbers={**hyperparameters, **scalars},
        weight_decay=optimizer._weight_decay(bucket),
        frame=dataclasses.replace(
            frame,
            accumulators=bucket.lists["accumulators"] if accumulates else (),
            averages=bucket.lists["averages"] if frame.averages else (),
            **rounding.of_launch(optimizer, bucket),
        ),
        lazy_mode=optimizer.lazy_mode,
        accumulated_rows=accumulated_rows,
        tables=bucket.names if bucket.sparse else (),
        **{mode: hyperparameters[mode] for mode in op.modes},
    )
