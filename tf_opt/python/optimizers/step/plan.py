"""Decides how each variable of a step is updated, before anything is written.

While a step is traced this happens once. Eager steps keep their plans.
"""

from __future__ import annotations

import collections
import random
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import tensorflow as tf

from tf_opt.python import dispatch
from tf_opt.python.functional.rule_spec import ELEMENTWISE, MATRIX, Form
from tf_opt.python.keras_internals import Variable, path_of
from tf_opt.python.ops.calls import (
    ResourceApplyOp,
    merge_slices,
    variable_group,
)
from tf_opt.python.optimizers.state import placement
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.state.table_modes import CATCH_UP
from tf_opt.python.optimizers.step.context import StepContext
from tf_opt.python.optimizers.values import gradients
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.gradients import Gradient


class Bucket(NamedTuple):
    """Variables of one type, on one device, that are updated together.

    Attributes:
        positions: Their positions among the step's variables.
        variables: The variables.
        indices: Their indices among the optimizer's variables.
        names: Their names in error messages.
        sparse: Whether their gradients are `tf.IndexedSlices`.
        lazy: Whether these are applied only to the rows that occur.
        form: The form of the rule that updates them.
        catches_up: Whether rows may have missed steps, with which they first
            catch up.
        lists: The op's lists of variables, slots, accumulators and so on, by
            name; None if the composed implementation runs. The ops also
            merge and measure gradients.
    """

    positions: tuple[int, ...]
    variables: tuple[tf.Variable, ...]
    indices: tuple[int, ...]
    names: tuple[str, ...]
    sparse: bool
    lazy: bool
    form: Form
    catches_up: bool
    lists: Mapping[str, Sequence[Any]] | None

    @property
    def runs_op(self) -> bool:
        """Whether the custom op updates these variables."""
        return self.lists is not None

    def on_device(self, state: OptimizerState) -> AbstractContextManager:
        """Returns the context of the device on which its state lives."""
        return state.on_device(self.indices[0])

    def merged(
        self,
        grads: Sequence[tf.IndexedSlices],
        accumulated: Sequence[tf.Tensor] = (),
    ) -> list[tf.IndexedSlices]:
        """Returns its gradients with the repeated rows summed, by the op.

        The rows of `launch.accumulated_rows` occur as well, with a gradient of
        zero.
        """
        rows = list(map(gradients.rows_of, self.variables))
        return merge_slices(grads, rows, accumulated, tables=self.names)


class _Shared(NamedTuple):
    """What the variables of a bucket share. Buckets have this order.

    A variable that occurs twice is updated twice, one after the other. Sparse
    gradients come first: their rows may be wrong.
    """

    occurrence: int
    dense: bool
    portion: int
    lazy: bool | str
    form: Form
    dtype: tf.DType
    device: str


class Plan(NamedTuple):
    """Plan of a step: the way each variable is updated.

    Attributes:
        variables: All variables of the step.
        buckets: The variables in buckets, in the order of their updates.
        sums: The positions of gradients that are summed together over replicas:
            those of a bucket, or of buckets that differ only in their device.
        repeats: Whether a variable occurs, and is updated, more than once.
        implementations: Those that update the variables.
    """

    variables: tuple[tf.Variable, ...]
    buckets: tuple[Bucket, ...]
    sums: tuple[tuple[int, ...], ...]
    repeats: bool
    implementations: frozenset[str]


def may_stay_sparse(
    context: StepContext,
    grads: Sequence[Gradient],
    variables: Sequence[Variable],
) -> list[bool] | None:
    """Returns which gradients may be applied without making them dense.

    Returns:
        A bool for each gradient; None if no gradient may.
    """
    state = context.state
    # Replicas that accumulate sum dense gradients.
    sums_dense = context.accumulates_in_replicas
    found = [
        isinstance(gradient, tf.IndexedSlices)
        and (
            state.lazy_mode[state.index_of(variable)]
            # An exact update sums in the gradient's type, then casts.
            or (not sums_dense and gradient.values.dtype == variable.dtype)
        )
        for gradient, variable in zip(grads, variables, strict=True)
    ]
    return found if any(found) else None


def planned(
    context: StepContext,
    variables: Sequence[Variable],
    are_sparse: Sequence[bool] | None,
    *,
    groups: bool = False,
) -> StepContext:
    """Returns the context of a step with its plan.

    `are_sparse` is the result of `may_stay_sparse`. With `groups`, a launch
    takes each of its lists as one group.
    """
    state, names = context.state, tuple(map(path_of, variables))
    updated = tuple(map(state.updated, variables))
    portions = [0] * len(updated)
    if state.working_copies:
        portions = placement.portions_of(updated)
    planner = _Planner(context, updated)
    occurrences: collections.Counter[int] = collections.Counter()
    parts: dict[_Shared, list[int]] = {}
    for i, variable in enumerate(updated):
        may_stay = are_sparse is not None and are_sparse[i]
        sparse, lazy = planner.treatment_of(variable, may_stay, names[i])
        shared = _Shared(
            occurrences[id(variable)],
            not sparse,
            portions[i],
            lazy,
            state.forms[state.index_of(variable)],
            variable.dtype,
            variable.device,
        )
        parts.setdefault(shared, []).append(i)
        occurrences[id(variable)] += 1
    in_order = sorted(parts.items(), key=lambda part: part[0][:3])
    buckets = tuple(
        planner.bucket(shared, positions, names, groups=groups)
        for shared, positions in in_order
    )
    sums: dict[tuple, list[int]] = {}
    for (*all_but_device, _), positions in in_order:
        sums.setdefault(tuple(all_but_device), []).extend(positions)
    plan = Plan(
        updated,
        buckets,
        tuple(tuple(sorted(together)) for together in sums.values()),
        repeats=any(count > 1 for count in occurrences.values()),
        implementations=frozenset(
            dispatch.CUSTOM_OP if bucket.runs_op else dispatch.COMPOSED
            for bucket in buckets
        ),
    )
    return context.replace(plan=plan)


class _Planner:
    """Decides how variables are updated, for `planned`."""

    def __init__(
        self, context: StepContext, variables: Sequence[tf.Variable]
    ) -> None:
        forms = {ELEMENTWISE, *context.state.forms}
        self._ops = {form: context.rule.of(form).op for form in forms}
        self._implementation = context.implementation
        self._state = context.state
        self._variables = variables
        self._only_rows_change = context.other_rows_stay
        self._composed = context.implementation == dispatch.COMPOSED or (
            # An op would write only the first copy of a variable.
            not access.in_replica() and any(map(access.has_copies, variables))
        )

    def treatment_of(
        self, variable: tf.Variable, may_stay_sparse: bool, name: str
    ) -> tuple[bool, bool | str]:
        """Returns whether its gradient stays sparse, and whether it is lazy."""
        if not may_stay_sparse:
            return False, False
        index = self._state.index_of(variable)
        if self._state.forms[index] == MATRIX:
            return False, False
        lazy = self._state.lazy_mode[index]
        if lazy == CATCH_UP and not self._state.waits(index):
            raise ValueError(
                f"`lazy_mode={CATCH_UP!r}` is for Keras' embeddings, but "
                f"`{name}` has a sparse gradient, too. Name all tables by "
                f"patterns: lazy_mode={{{name!r}: {CATCH_UP!r}, ...}}"
            )
        if lazy:
            return True, lazy
        # Where no other row changes, composed steps are lazy, too.
        if self._composed or self._only_rows_change:
            return self._only_rows_change, self._only_rows_change
        op, where = self._ops[self._state.forms[index]], variable.device
        name = op and op.name
        can_run = dispatch.obstacle_to(name, variable.dtype, where) is None
        return can_run, False

    def bucket(
        self,
        shared: _Shared,
        positions: Sequence[int],
        names: Sequence[str],
        *,
        groups: bool,
    ) -> Bucket:
        """Returns the bucket of the variables at these positions."""
        state, op = self._state, self._ops[shared.form]
        variables = tuple(self._variables[i] for i in positions)
        indices = tuple(map(state.index_of, variables))
        catches_up = any(map(state.waits, indices))
        lists = None
        name = op and (op if shared.dense else op.for_slices).name
        if not self._composed and dispatch.runs_custom_op(
            self._implementation, name, shared.dtype, shared.device
        ):
            lists = _lists(op, state, variables, indices)
            if catches_up and not shared.dense:
                lists["since"] = [state.since[i] for i in indices]
                lists["coasting"] = [state.coasting[i] for i in indices]
            if groups:
                lists = {
                    name: [variable_group(x, shared.device)] if x else ()
                    for name, x in lists.items()
                }
        return Bucket(
            positions=tuple(positions),
            variables=variables,
            indices=indices,
            names=tuple(names[i] for i in positions),
            sparse=not shared.dense,
            lazy=bool(shared.lazy),
            form=shared.form,
            catches_up=catches_up,
            lists=lists,
        )


def _lists(
    op: ResourceApplyOp,
    state: OptimizerState,
    variables: Sequence[tf.Variable],
    indices: Sequence[int],
) -> dict[str, Sequence[Variable]]:
    """Returns the op's lists for these variables, by name."""
    slots = zip(*map(state.slots_of, indices), strict=True)
    names = [x.name for x in state.spec.forms[state.forms[indices[0]]].slots]
    lists = dict.fromkeys(op.slots, ())
    lists.update(zip(names, slots, strict=True))
    lists["variables"] = variables
    extras = {
        "accumulators": state.accumulators,
        "averages": state.averages,
        "master_weights": state.masters,
    }
    for name, kept in extras.items():
        own = [kept[i] for i in indices] if kept else ()
        # Either all variables of one type have this state, or none has.
        lists[name] = () if any(x is None for x in own) else own
    return lists


class PlanKeeper:
    """Keeps the plans of lists of variables, for eager steps.

    Threads may share it: at worst two of them make the same plan.
    """

    # How many variables all kept plans have together, some 100 bytes each. The
    # rest of a plan takes as much as `BESIDES` variables.
    LIMIT = 2**17
    BESIDES = 64

    def __init__(self) -> None:
        self._plans: dict[Hashable, tuple[list, Plan]] = {}
        self._random = random.Random(0)
        # The implementations of the last step that ran eagerly or was traced.
        self.in_use: frozenset[str] = frozenset()

    def clear(self) -> None:
        """Drops all plans, because they hold other slots."""
        self._plans.clear()

    def find(
        self, variables: Sequence[Variable], mode: Hashable
    ) -> Plan | None:
        """Returns the plan kept for these variables, or None.

        `mode` is everything else that a plan depends on.
        """
        kept = self._plans.get((mode, *map(id, variables)))
        return None if kept is None else kept[1]

    def of_step(
        self,
        context: StepContext,
        grads: Sequence[Gradient],
        variables: Sequence[Variable],
    ) -> StepContext:
        """Returns a step's context with its plan, a kept one in eager mode."""
        rule, state = context.rule, context.state
        if state.since:
            rule.spec.check_coasts(rule.hyperparameters, context.weight_decay)
        are_sparse = may_stay_sparse(context, grads, variables)
        keeps = access.eager_without_strategy()
        mode: Hashable = context.implementation
        if are_sparse is not None:
            rows_only = context.other_rows_stay
            mode = (mode, rows_only, state.lazy_mode, *are_sparse)
        plan = self.find(variables, mode) if keeps else None
        if plan is not None:
            context = context.replace(plan=plan)
        else:
            context = planned(context, variables, are_sparse, groups=keeps)
            if keeps:
                # The list keeps the variables alive, so their ids stay unique.
                key = (mode, *map(id, variables))
                self._plans[key] = (list(variables), context.plan)
                self._drop_some()
        self.in_use = context.plan.implementations
        return context

    def _drop_some(self) -> None:
        """Drops plans at random until the limit allows the others.

        In a loop over too many subsets, the oldest would be the next to use.
        """
        # Other threads may drop plans meanwhile, even all of them.
        while (
            sum(map(len, kept := list(self._plans))) + self.BESIDES * len(kept)
            > self.LIMIT
        ):
            self._plans.pop(self._random.choice(kept), None)
