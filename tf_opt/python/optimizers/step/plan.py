"""Decides how each variable of a step is updated, before anything is written.

While a step is traced this happens once. Eager steps keep their plans.
"""

from __future__ import annotations

import collections
import dataclasses
import random
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_opt.python import dispatch
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.rule_spec import MATRIX, Form, RuleSpec
from tf_opt.python.keras_internals import Variable, path_of
from tf_opt.python.ops.calls import (
    ResourceApplyOp,
    merge_slices,
    variable_group,
)
from tf_opt.python.optimizers.state import placement
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.state.table_modes import CATCH_UP
from tf_opt.python.optimizers.step.context import Frame, StepContext
from tf_opt.python.optimizers.step.update_rule import Scalars, UpdateRule
from tf_opt.python.optimizers.values import gradients
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.optimizers.values.gradients import Gradient


class Factors(NamedTuple):
    """Numbers of single variables: one for all of them, or one for each."""

    gradient: Any = 1.0
    learning_rate: Any = 1.0
    weight_decay: Any = 0.0

    def of(self, i: int) -> Factors:
        """Returns the numbers of the i-th variable."""
        return Factors(
            *(x[i] if len(getattr(x, "shape", ())) else x for x in self)
        )


class BucketStep(NamedTuple):
    """One step of a bucket's variables."""

    bucket: Bucket
    rule: UpdateRule
    grads: Sequence[Gradient]
    frame: Frame
    factors: Factors
    scalars: Scalars


class Bucket(NamedTuple):
    """Variables of one type, on one device, that are updated together.

    Attributes:
        positions: Their positions among the step's variables.
        variables: The variables.
        indices: Their indices among the optimizer's variables.
        names: The tables' names in error messages; empty if `sparse` is false.
        sparse: Whether their gradients are `tf.IndexedSlices`.
        rows_only: Whether they update only the rows that occur.
        form: The form of the rule that updates them.
        op: The op that updates them, if their gradients are dense; other ops
            then merge and measure these. None: the composed implementation
            does all of it.
        lists: The op's lists of variables, slots, accumulators and so on, by
            name.
    """

    positions: tuple[int, ...]
    variables: tuple[tf.Variable, ...]
    indices: tuple[int, ...]
    names: tuple[str, ...]
    sparse: bool
    rows_only: bool
    form: Form
    op: ResourceApplyOp | None
    lists: Mapping[str, Sequence[Any]]

    def step(
        self,
        context: StepContext,
        grads: Sequence[Gradient],
        frame: Frame,
        scalars: Scalars,
        factor: Scalar = 1.0,
        *,
        decays: bool = True,
    ) -> BucketStep:
        """Returns a step with these gradients, which get a `factor`."""
        state, rule = context.state, context.rule.of(self.form)
        decay, rate = rule.decay_and_rate(context.weight_decay)
        rates = state.learning_rate_factors(self.indices)
        factors = Factors(
            factor,
            rates if rate is None else rates * rate,
            state.weight_decays(decay, self.indices) if decays else 0.0,
        )
        return BucketStep(self, rule, grads, frame, factors, scalars)

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
    rows_only: bool | str
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
) -> list[bool]:
    """Returns which gradients may be applied without making them dense."""
    state = context.state
    # Replicas that accumulate sum dense gradients.
    sums_dense = context.accumulates_in_replicas
    return [
        isinstance(gradient, tf.IndexedSlices)
        and (
            state.lazy_mode[state.index_of(variable)]
            # An exact update sums in the gradient's type, then casts.
            or (not sums_dense and gradient.values.dtype == variable.dtype)
        )
        for gradient, variable in zip(grads, variables, strict=True)
    ]


def planned(
    context: StepContext,
    variables: Sequence[Variable],
    are_sparse: Sequence[bool],
    *,
    groups: bool = False,
) -> Plan:
    """Returns the plan of a step.

    `are_sparse` is the result of `may_stay_sparse`. With `groups`, a launch
    takes each of its lists as one group.
    """
    state = context.state
    updated = state.updated(variables)
    portions = [0] * len(updated)
    if state.working_copies:
        portions = placement.portions_of(updated)
    planner = _Planner(context, variables, updated)
    occurrences: collections.Counter[int] = collections.Counter()
    parts: dict[_Shared, list[int]] = {}
    for i, variable in enumerate(updated):
        sparse = rows_only = False
        if are_sparse[i]:
            sparse, rows_only = planner.treatment_of(i)
        shared = _Shared(
            occurrences[id(variable)],
            not sparse,
            portions[i],
            rows_only,
            state.forms[state.index_of(variable)],
            variable.dtype,
            variable.device,
        )
        parts.setdefault(shared, []).append(i)
        occurrences[id(variable)] += 1
    in_order = sorted(parts.items(), key=lambda part: part[0][:3])
    buckets = tuple(
        planner.bucket(shared, positions, groups=groups)
        for shared, positions in in_order
    )
    sums: dict[tuple, list[int]] = {}
    for (*all_but_device, _), positions in in_order:
        sums.setdefault(tuple(all_but_device), []).extend(positions)
    return Plan(
        updated,
        buckets,
        tuple(tuple(sorted(together)) for together in sums.values()),
        repeats=any(count > 1 for count in occurrences.values()),
        implementations=frozenset(
            dispatch.CUSTOM_OP if bucket.op else dispatch.COMPOSED
            for bucket in buckets
        ),
    )


class _Planner:
    """Decides how variables are updated, for `planned`."""

    def __init__(
        self,
        context: StepContext,
        variables: Sequence[Variable],
        updated: Sequence[tf.Variable],
    ) -> None:
        self._context = context
        self._state = context.state
        self._variables = variables
        self._updated = updated
        self._composed = context.implementation == dispatch.COMPOSED or (
            # An op would write only the first copy of a variable.
            not access.in_replica()
            and any(
                isinstance(x, tf.distribute.DistributedValues) for x in updated
            )
        )

    def treatment_of(self, i: int) -> tuple[bool, bool | str]:
        """Returns whether a gradient stays sparse and updates only rows."""
        variable = self._updated[i]
        index = self._state.index_of(variable)
        form, lazy = self._state.forms[index], self._state.lazy_mode[index]
        if form == MATRIX:
            return False, False
        if lazy == CATCH_UP and not self._state.waits(index):
            name = path_of(self._variables[i])
            raise ValueError(
                f"`lazy_mode={CATCH_UP!r}` is for Keras' embeddings, but "
                f"`{name}` has a sparse gradient, too. Name all tables by "
                f"patterns: lazy_mode={{{name!r}: {CATCH_UP!r}, ...}}"
            )
        if lazy:
            return True, lazy
        # Where no other row changes, composed steps update only rows.
        only_rows_change = self._context.other_rows_stay
        if self._composed or only_rows_change:
            return only_rows_change, only_rows_change
        name = self._state.spec.forms[form].op_name
        obstacle = dispatch.obstacle_to(name, variable.dtype, variable.device)
        return obstacle is None, False

    def bucket(
        self, shared: _Shared, positions: Sequence[int], *, groups: bool
    ) -> Bucket:
        """Returns the bucket of the variables at these positions."""
        context, lists = self._context, {}
        spec = self._state.spec.forms[shared.form]
        if shared.dtype.is_integer and spec.slots:
            raise ValueError(
                f"`{path_of(self._variables[positions[0]])}` must be floating "
                f"point or complex to be updated by {spec.class_name}. "
                f"Received: {shared.dtype.name}"
            )
        variables = tuple(self._updated[i] for i in positions)
        indices = tuple(map(self._state.index_of, variables))
        names = () if shared.dense else [self._variables[i] for i in positions]
        name = spec.op_name
        op = None if name is None else ResourceApplyOp(name)
        name = op and (op if shared.dense else op.for_slices).name
        if self._composed or not dispatch.runs_custom_op(
            context.implementation, name, shared.dtype, shared.device
        ):
            op = None
        else:
            lists = _lists(self._state, spec, variables, indices)
            if groups:
                lists = {
                    name: [variable_group(x, shared.device)] if x else ()
                    for name, x in lists.items()
                }
        return Bucket(
            positions=tuple(positions),
            variables=variables,
            indices=indices,
            names=tuple(map(path_of, names)),
            sparse=not shared.dense,
            rows_only=bool(shared.rows_only),
            form=shared.form,
            op=op,
            lists=lists,
        )


def _lists(
    state: OptimizerState,
    spec: RuleSpec,
    variables: Sequence[tf.Variable],
    indices: Sequence[int],
) -> dict[str, Sequence[Variable]]:
    """Returns an op's lists for these variables, by name."""
    lists = {
        **{slot.name: state.built_slots[slot.name] for slot in spec.slots},
        "accumulators": state.accumulators,
        "averages": state.averages,
        "master_weights": state.masters,
        "since": state.since,
        "coasting": state.coasting,
    }
    for name, kept in lists.items():
        own = [kept[i] for i in indices] if kept else ()
        # Either all variables of one type have this state, or none has.
        lists[name] = () if any(x is None for x in own) else own
    return {**lists, "variables": variables}


@dataclasses.dataclass
class KeptPlan:
    """A plan that eager steps keep.

    Attributes:
        variables: The variables that the user gave; it keeps them alive, so
            that their ids stay unique.
        plan: The plan.
        launch: The `RepeatedLaunch` that does a whole step, if there is one.
    """

    variables: list[Variable]
    plan: Plan
    launch: Any = None


class PlanKeeper:
    """Keeps the plans of lists of variables, for eager steps.

    Threads may share it: at worst two of them make the same plan.
    """

    # How many variables all kept plans have together, some 100 bytes each. The
    # rest of a plan takes as much as `BESIDES` variables.
    LIMIT = 2**17
    BESIDES = 64

    def __init__(self) -> None:
        self._plans: dict[Hashable, KeptPlan] = {}
        self._random = random.Random(0)
        # The implementations of the last step that ran eagerly or was traced.
        self.in_use: frozenset[str] = frozenset()
        # How often an attribute of the optimizer was assigned.
        self.changes = 0

    def clear(self) -> None:
        """Drops all plans, because they hold other slots."""
        self._plans.clear()

    def find(
        self, variables: Sequence[Variable], mode: Hashable
    ) -> KeptPlan | None:
        """Returns what is kept for these variables, or None.

        `mode` is everything else that a plan depends on.
        """
        return self._plans.get((mode, *map(id, variables)))

    def of_step(
        self,
        context: StepContext,
        grads: Sequence[Gradient],
        variables: Sequence[Variable],
    ) -> Plan:
        """Returns the plan of a step, a kept one in eager mode."""
        rule, state = context.rule, context.state
        if state.since:
            rule.spec.check_coasts(rule.hyperparameters, context.weight_decay)
        are_sparse = may_stay_sparse(context, grads, variables)
        keeps = access.eager_without_strategy()
        mode: Hashable = context.implementation
        if any(are_sparse):
            rows_only = context.other_rows_stay
            mode = (mode, rows_only, state.lazy_mode, *are_sparse)
        kept = self.find(variables, mode) if keeps else None
        if kept is not None:
            plan = kept.plan
        else:
            plan = planned(context, variables, are_sparse, groups=keeps)
            if keeps:
                key = (mode, *map(id, variables))
                self._plans[key] = KeptPlan(list(variables), plan)
                self._drop_some()
        self.in_use = plan.implementations
        return plan

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
