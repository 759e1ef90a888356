"""The composed implementation of a step, a variable at a time."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf

from tf_opt.python.functional import arithmetic, slices, step_frame
from tf_opt.python.functional.arithmetic import Flag, Scalar, both, choose
from tf_opt.python.functional.stochastic_rounding import AVERAGE, FIRST_SLOT
from tf_opt.python.keras_internals import Variable, tf_variable
from tf_opt.python.optimizers.state.storage import Weight
from tf_opt.python.optimizers.step import rule_function
from tf_opt.python.optimizers.step.context import Frame, StepContext, needs_bits
from tf_opt.python.optimizers.step.plan import Bucket, BucketStep, Factors
from tf_opt.python.optimizers.step.update_rule import Scalars, UpdateRule
from tf_opt.python.optimizers.step.waiting import WaitingTable
from tf_opt.python.optimizers.values import gradients
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.gradients import Gradient

# How many elements a stack of matrices has at most; larger ones keep all cores
# busy by themselves.
_MOST_STACKED = 2**22


class _Input(NamedTuple):
    """The gradient that a rule takes, and the rows that it is of.

    Attributes:
        gradient: The gradient that the rule takes.
        rows: The rows that `gradient` holds; None: all rows.
        occurs: For each row of the variable, whether it is updated; None: the
            rows of `gradient` are.
    """

    gradient: tf.Tensor
    rows: tf.Tensor | None = None
    occurs: tf.Tensor | None = None

    def changes(self, variable: Variable, enabled: Flag) -> Flag:
        """Returns where values change, in a shape that broadcasts to them."""
        if self.occurs is None:
            return enabled
        return both(enabled, arithmetic.of_rows(self.occurs, variable))


class _Operand(NamedTuple):
    """What a step has read of a variable: its weight, gradient and slots."""

    index: int
    weight: Weight
    given: _Input
    slots: Sequence[tf.Tensor]


class Composed:
    """One composed step."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._state = context.state
        self._rounding = context.rounding()

    def accumulate(
        self,
        bucket: Bucket,
        grads: Sequence[Gradient],
        scale: Scalar,
        enabled: Flag,
    ) -> None:
        """Adds gradients to the accumulators."""
        for gradient, index in zip(grads, bucket.indices, strict=True):
            accumulator, rows = self._state.accumulators[index], None
            if bucket.sparse:
                merged = slices.merge(gradient.values, gradient.indices)
                rows, gradient = merged.rows, merged.once()
            scaled = step_frame.accumulate(None, gradient, scale)
            # The gradient of a skipped step may hold NaNs.
            scaled = choose(enabled, scaled, tf.zeros_like(scaled))
            access.add_to_rows(accumulator, rows, scaled)

    def update(self, step: BucketStep) -> None:
        """Updates a bucket's variables and slots."""
        bucket, rule, _, frame, factors, scalars = step
        bound = _bound(rule, scalars)
        if rule.spec.layout_of is not None:
            self._update_stacks(step, bound)
            return
        in_place = self._updates_in_place(step, bound)
        for i, (variable, index) in enumerate(
            zip(bucket.variables, bucket.indices, strict=True)
        ):
            own = factors.of(i)
            given = self._input(step, i, own)
            apply = _bound_by(own, rule, bound, scalars)
            waiting = None
            if self._state.waits(index):
                waiting = self._waiting(step, i)
                # None: the gradient is of all rows.
                waiting.catch_up(given.rows, frame.enabled)
            if in_place:
                slots = map(tf_variable, self._state.slots_of(index))
                apply(
                    tf_variable(variable),
                    given.gradient,
                    list(slots),
                    own.weight_decay,
                )
                continue
            old = self._read(step, i, given)
            new = apply(
                old.weight.value, given.gradient, old.slots, own.weight_decay
            )
            self._store(step, old, new)
            if waiting is not None and bucket.sparse:
                waiting.miss(own.weight_decay, frame.enabled)
                waiting.mark(given.rows, given.occurs, frame.enabled)

    def _update_stacks(
        self, step: BucketStep, bound: rule_function.Apply
    ) -> None:
        """Updates a bucket's matrices; small ones of one shape are a stack."""
        for sides, members in self._stacks_of(step.bucket, step.factors):
            olds = []
            for i in members:
                own = step.factors.of(i)
                given = self._input(step, i, own)
                olds.append(self._read(step, i, given))
            apply = _bound_by(own, step.rule, bound, step.scalars)
            slots = zip(*(old.slots for old in olds), strict=True)
            new = apply(
                _stack([old.weight.value for old in olds], sides),
                _stack([old.given.gradient for old in olds], sides),
                [_stack(x, sides) for x in slots],
                own.weight_decay,
            )
            for k, old in enumerate(olds):
                shape = old.weight.stored.shape
                own_new = (x if len(olds) == 1 else x[k] for x in new)
                values = [tf.reshape(x, shape) for x in own_new]
                self._store(step, old, values)

    def _stacks_of(
        self, bucket: Bucket, factors: Factors
    ) -> Iterator[tuple[tuple[int, int], list[int]]]:
        """Yields rows and columns of each stack, and its members."""
        found: dict[Hashable, list[int]] = {}
        for i, index in enumerate(bucket.indices):
            axes = self._state.input_axes[index]
            shape = bucket.variables[i].shape.as_list()
            sides = math.prod(shape[:axes]), math.prod(shape[axes:])
            own = factors.of(i)
            same = (own.learning_rate, own.weight_decay)
            # What isn't known while a step is traced can't be compared.
            if not all(isinstance(x, (int, float)) for x in same):
                same = (i,)
            found.setdefault((sides, *same), []).append(i)
        for (sides, *_), members in found.items():
            most = max(1, _MOST_STACKED // max(1, math.prod(sides)))
            for first in range(0, len(members), most):
                yield sides, members[first : first + most]

    def catch_up(
        self, step: BucketStep, rows: Sequence[tf.Tensor] | None
    ) -> None:
        """Lets rows of a bucket's tables catch up, or all if `rows` is None."""
        enabled = step.frame.enabled
        for i in range(len(step.bucket.indices)):
            waiting = self._waiting(step, i)
            if rows is None:
                waiting.catch_up(None, enabled)
            else:
                waiting.catch_up(rows[i], enabled)
                waiting.mark(rows[i], None, enabled)

    def _waiting(self, step: BucketStep, i: int) -> WaitingTable:
        """Returns the bucket's i-th table."""
        bucket, rule = step.bucket, step.rule
        rate = step.factors.of(i).learning_rate
        update = rule.spec.bind(**rule.numbers(rule.scaled(rate, step.scalars)))
        table = (bucket.indices[i], bucket.variables[i])
        return WaitingTable(self._state, self._rounding, *table, update)

    def _read(self, step: BucketStep, i: int, given: _Input) -> _Operand:
        """Reads the bucket's i-th variable, or rows of it, and its slots.

        Of a stack it reads only the layer that the step needs.
        """
        index, rows = step.bucket.indices[i], given.rows
        weight = Weight(self._state, index, step.bucket.variables[i], rows)
        old_slots = [
            access.read_rows(slot, rows, step.scalars.get(x.layer_input))
            for slot, x in zip(
                self._state.slots_of(index), step.rule.spec.slots, strict=True
            )
        ]
        return _Operand(index, weight, given, old_slots)

    def _store(
        self, step: BucketStep, old: _Operand, new: Sequence[tf.Tensor]
    ) -> None:
        """Rounds and assigns the new values of one variable and its slots."""
        index, weight, given, old_slots = old
        enabled = step.frame.enabled
        value, *slot_values = new
        changes = given.changes(weight.stored, enabled)
        weight.write(value, changes, self._rounding)
        slots, specs = self._state.slots_of(index), step.rule.spec.slots
        for k, (slot, spec, old_value, new_value) in enumerate(
            zip(slots, specs, old_slots, slot_values, strict=True)
        ):
            dtype, stream = old_value.dtype, FIRST_SLOT + k
            if spec.rounded_to_nearest:
                rounded = tf.cast(new_value, dtype)
            else:
                rounded = self._rounding(
                    index, stream, new_value, dtype, given.rows
                )
            changes = given.changes(old_value, enabled)
            stored = choose(changes, rounded, old_value)
            layer = step.scalars.get(spec.layer_input)
            access.write_rows(slot, given.rows, stored, layer)

    def _updates_in_place(
        self, step: BucketStep, apply: rule_function.Apply
    ) -> bool:
        """Returns whether the rule's function may read and write variables.

        It may if whole variables and slots are updated, and a cast stores them.
        """
        return (
            isinstance(apply, rule_function.KeptRule)
            and not any(slot.layer_input for slot in step.rule.spec.slots)
            and not step.bucket.sparse
            and step.frame.enabled is True
            and not self._state.masters
            and not needs_bits(self._context)
            and all(map(access.has_own_handle, step.bucket.variables))
        )

    def _input(self, step: BucketStep, i: int, own: Factors) -> _Input:
        """Returns the gradient of the bucket's i-th variable.

        Adds the accumulator, which becomes zero.
        """
        bucket, frame, gradient = step.bucket, step.frame, step.grads[i]
        rows = occurs = accumulator = accumulated = None
        if frame.accumulates:
            accumulator = self._state.accumulators[bucket.indices[i]]
            accumulated = tf.convert_to_tensor(accumulator)
            if bucket.sparse:
                occurs = occurring(gradient, bucket.variables[i], accumulated)
                gradient = gradients.to_dense(gradient, bucket.variables[i])
        elif bucket.sparse:
            rows, gradient, _ = slices.merge(gradient.values, gradient.indices)
        total = step_frame.accumulate(
            accumulated, gradient, frame.gradient_scale
        )
        if accumulator is not None:
            zeros = tf.zeros_like(accumulated)
            access.assign(
                accumulator, choose(frame.enabled, zeros, accumulated)
            )
        finished = step_frame.finish_gradient(
            total, own.gradient, frame.clip_value
        )
        return _Input(finished, rows, occurs)

    # ---- Moving averages. ----

    def average_others(self, averaged: Collection[int], frame: Frame) -> None:
        """Moves the averages of variables that haven't `averaged` yet."""
        for index, average in enumerate(self._state.averages):
            if average is not None and index not in averaged:
                with self._state.on_device(index):
                    self._average(index, frame)

    def _average(self, index: int, frame: Frame) -> None:
        """Moves a variable's average to the new value."""
        average = self._state.averages[index]
        weight = Weight(self._state, index)
        old = access.value_of(average)
        # The variable gets the average before it is rounded.
        new = step_frame.moving_average(old, weight.value, frame.ema_momentum)
        rounded = self._rounding(index, AVERAGE, new, old.dtype)
        access.assign(average, choose(frame.enabled, rounded, old))
        if frame.overwrite_with_average is False:
            weight.reconcile(frame.enabled)
        else:
            value = tf.cast(weight.value, new.dtype)
            value = choose(frame.overwrite_with_average, new, value)
            weight.write(value, frame.enabled, self._rounding)


def _bound(rule: UpdateRule, scalars: Scalars) -> rule_function.Apply:
    return rule_function.bind(rule.spec, rule.numbers(scalars))


def _bound_by(
    own: Factors, rule: UpdateRule, bound: rule_function.Apply, scalars: Scalars
) -> rule_function.Apply:
    """Returns the update with a variable's learning rate; often `bound`."""
    if arithmetic.is_known(own.learning_rate, 1):
        return bound
    return _bound(rule, rule.scaled(own.learning_rate, scalars))


def _stack(tensors: Sequence[tf.Tensor], sides: Sequence[int]) -> tf.Tensor:
    # TensorFlow multiplies one matrix faster than a stack of one.
    matrices = [tf.reshape(x, sides) for x in tensors]
    return matrices[0] if len(matrices) == 1 else tf.stack(matrices)


def rows_accumulated(accumulator: Variable) -> tf.Tensor:
    """Returns for each row whether anything in it isn't zero."""
    accumulated = tf.convert_to_tensor(accumulator)
    return tf.reduce_any(
        tf.not_equal(accumulated, 0), axis=range(1, accumulated.shape.rank)
    )


def occurring(
    gradient: tf.IndexedSlices, variable: Variable, accumulator: Variable
) -> tf.Tensor:
    """Returns for each row whether it has a gradient, now or accumulated."""
    ones = tf.ones_like(gradient.indices, tf.int32)
    counts = tf.math.unsorted_segment_sum(
        ones, gradient.indices, variable.shape[0]
    )
    return (counts > 0) | rows_accumulated(accumulator)
