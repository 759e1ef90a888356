"""What a step over some variables runs, found out before anything is written.

In a graph that is done once, while the step is traced. Eager steps keep it.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import NamedTuple

import tensorflow as tf

from tf_opt.python import dispatch
from tf_opt.python.keras_internals import Variable
from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.ops.variable_group import variable_group
from tf_opt.python.optimizers.gradients import path_of

if TYPE_CHECKING:
    from tf_opt.python.optimizers.fused_optimizer import FusedOptimizer


class Bucket(NamedTuple):
    """Variables of one type, on one device, that are updated together.

    Attributes:
        positions: Where they stand among the step's variables.
        variables: The variables.
        indices: Where they stand among the optimizer's.
        decays: For each, whether weight decay applies to it.
        names: What an error calls them.
        sparse: Whether their gradients are `tf.IndexedSlices`.
        signature: For each, the type and shape of a gradient that an op takes
            without a conversion, as `eager_signature` says them.
        lists: What the op takes as its lists of variables, slots, accumulators,
            averages and master weights, by name; None if the composed
            implementation runs.
    """

    positions: tuple[int, ...]
    variables: tuple[tf.Variable, ...]
    indices: tuple[int, ...]
    decays: tuple[bool, ...]
    names: tuple[str, ...]
    sparse: bool
    signature: list[tuple]
    lists: Mapping[str, Sequence[Any]] | None


class Plan(NamedTuple):
    """What runs.

    Attributes:
        variables: All variables of the step.
        buckets: The same in parts, in their order. Under a strategy the
            gradients of each part are summed together.
    """

    variables: tuple[tf.Variable, ...]
    buckets: tuple[Bucket, ...]

    def describe(self) -> str:
        """Names the implementations."""
        is_custom = {bucket.lists is not None for bucket in self.buckets}
        names = ["custom_op"] * (True in is_custom)
        names += ["composed"] * (False in is_custom)
        return " and ".join(names)


def make(
    optimizer: FusedOptimizer,
    variables: Sequence[Variable],
    are_sparse: Sequence[bool] | None = None,
    *,
    groups: bool = False,
    composed: bool = False,
) -> Plan:
    """Decides what updates which variables.

    Args:
        optimizer: The optimizer.
        variables: The variables of a step.
        are_sparse: For each, whether its gradient is sparse; None: none is.
        groups: Whether a launch takes each of its lists as one group.
        composed: Whether no custom op is to run.
    """
    parts: dict[tuple[int, bool, tf.DType, str], list[int]] = {}
    occurrences: collections.Counter[int] = collections.Counter()
    tf_variables = tuple(map(tf_variable, variables))
    for i, variable in enumerate(tf_variables):
        # One that occurs twice is updated twice, one after the other.
        key = id(variable)
        sparse = are_sparse is not None and (
            are_sparse[i] and _stays_sparse(optimizer, variable, composed)
        )
        # Those first in which a wrong row may be found.
        part = (occurrences[key], not sparse, variable.dtype, variable.device)
        parts.setdefault(part, []).append(i)
        occurrences[key] += 1
    buckets = []
    for (_, dense, dtype, device), positions in sorted(
        parts.items(), key=lambda part: part[0][:2]
    ):
        sparse = not dense
        updated = tuple(tf_variables[i] for i in positions)
        indices = tuple(map(optimizer._index_of, updated))
        op = optimizer._op.for_slices if sparse else optimizer._op
        lists = None
        if not composed and dispatch.runs_custom_op(
            optimizer.implementation, op.name, dtype, device
        ):
            lists = _lists(optimizer, updated, indices)
            if groups:
                lists = {
                    name: [variable_group(list_, device)] if list_ else ()
                    for name, list_ in lists.items()
                }
        buckets.append(
            Bucket(
                positions=tuple(positions),
                variables=updated,
                indices=indices,
                decays=tuple(map(optimizer._decays, updated)),
                names=tuple(path_of(variables[i]) for i in positions),
                sparse=sparse,
                signature=[
                    (dtype.as_datatype_enum, tuple(variable.shape))
                    for variable in updated
                ],
                lists=lists,
            )
        )
    return Plan(tf_variables, tuple(buckets))


def _stays_sparse(
    optimizer: FusedOptimizer, variable: tf.Variable, composed: bool
) -> bool:
    """Whether a variable is updated without making its gradient dense."""
    if optimizer.lazy_mode:
        return True
    # Where no op does that, a dense gradient gives the same numbers.
    return not composed and dispatch.could_run_custom_op(
        optimizer.implementation,
        optimizer._op.for_slices.name,
        variable.dtype,
        variable.device,
    )


def _lists(
    optimizer: FusedOptimizer,
    variables: Sequence[tf.Variable],
    indices: Sequence[int],
) -> dict[str, Sequence[Variable]]:
    """What the op takes for these variables, by the names of its lists."""
    slots = zip(*map(optimizer._slots, indices), strict=True)
    lists = dict.fromkeys(optimizer._op.slots, ())
    lists.update(zip(optimizer._op.slots, slots, strict=False))
    lists["variables"] = variables
    for name, kept in optimizer._around_the_rule().items():
        own = [kept[i] for i in indices] if kept else ()
        # Of variables of this type none has one, or each.
        lists[name] = () if any(x is None for x in own) else own
    return lists


class PlanKeeper:
    """Keeps the plans of the last few lists of variables, for eager steps.

    Threads may share it: at worst two of them make the same plan.
    """

    # Loops step all variables, or take turns among a few parts of them.
    LIMIT = 16

    def __init__(self) -> None:
        self._plans: dict[Hashable, tuple[list, Plan]] = {}
        # Of the step that was last run eagerly, or traced.
        self.last: Plan | None = None

    def __deepcopy__(self, memo: dict) -> PlanKeeper:
        # A copied optimizer has variables of its own.
        return PlanKeeper()

    def clear(self) -> None:
        """Forgets everything: the optimizer has new slots."""
        self._plans.clear()

    def find(
        self,
        variables: Sequence[Variable],
        mode: Hashable,
    ) -> Plan | None:
        """The plan that is kept for these variables, if one is.

        Args:
            variables: The variables of a step.
            mode: What else a plan depends on.
        """
        kept = self._plans.get((mode, *map(id, variables)))
        return None if kept is None else kept[1]

    def of(
        self,
        variables: Sequence[Variable],
        mode: Hashable,
        make: Callable[[], Plan],
    ) -> Plan:
        """The plan for these variables, from `make` if it isn't kept.

        Args:
            variables: The variables of a step.
            mode: What else a plan depends on.
            make: Makes a plan.
        """
        plan = self.find(variables, mode)
        if plan is None:
            plan = make()
            if len(self._plans) >= self.LIMIT:
                self._plans.clear()
            # With the variables, so that no others can have their ids.
            key = (mode, *map(id, variables))
            self._plans[key] = (list(variables), plan)
        return plan
