"""Update of one variable: the part that is the same for all rules."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import scalars
from tf_opt.python.functional import storage_rounding
from tf_opt.python.functional import tensors
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.coasting import MissedStep
from tf_opt.python.functional.rule_spec import RuleSpec
from tf_opt.python.functional.step_frame import is_known

# Narrower types that a slot may have, by arithmetic type.
_NARROWER = {
    tf.float32: (tf.bfloat16,),
    tf.float64: (tf.float32, tf.bfloat16),
}


@dataclasses.dataclass(frozen=True)
class Update:
    """Update of one variable by a rule in one step.

    Attributes:
        formula: The rule. Takes a namespace of the scalars and `sqrt`, the
            variable, the gradient and, by name, the slots, all real and of one
            type; returns the new variable and slots.
        scalars: The formula's scalars by name, in float64. Each is rounded once
            to each type that needs it.
        learning_rate: The factor of a decoupled weight decay, in float64.
        slots: The names of the slots.
        decoupled_weight_decay: Whether the decay shrinks the variable or adds
            to the gradient (L2).
        maximize: Whether to ascend.
        kept: The factor by which another decay shrinks the variable.
        rounds_gradient_like_slot: The slot whose type gradients are rounded to,
            if any.
        missed: Returns what the step does to rows that miss it; None if there
            is no such rule.
        sqrt: The square root.
    """

    formula: Callable[..., Sequence[tf.Tensor]]
    scalars: Mapping[str, tf.Tensor]
    learning_rate: tf.Tensor
    slots: Sequence[str]
    decoupled_weight_decay: bool
    maximize: bool
    kept: Scalar = 1.0
    rounds_gradient_like_slot: int | None = None
    missed: Callable[[], MissedStep] | None = None
    sqrt: Callable[[tf.Tensor], tf.Tensor] = tf.sqrt
    _once: arithmetic.OncePerGraph = dataclasses.field(
        default_factory=arithmetic.OncePerGraph, init=False
    )

    def __call__(
        self,
        variable: tf.Tensor,
        gradient: tf.Tensor,
        slots: Sequence[tf.Tensor],
        weight_decay: Scalar,
    ) -> tuple[tf.Tensor, ...]:
        """Returns the new variable and slots.

        The tensors may have any types; the results have the arithmetic type.
        """
        slot_dtype = arithmetic.slot_dtype(variable.dtype)
        dtype = slot_dtype.real_dtype
        slots = list(slots)
        p, g, *real_slots = (
            arithmetic.as_real(x, dtype) for x in (variable, gradient, *slots)
        )
        coupled, decoupled = 0.0, weight_decay
        if not self.decoupled_weight_decay:
            coupled, decoupled = decoupled, coupled
        if self.maximize:
            g = -g
        if not is_known(coupled, 0):
            # A decay that is 0 changes nothing, no sign of a zero either.
            decay = self._factor(arithmetic.float64, coupled, dtype)
            g = g - tf.math.multiply_no_nan(p, -decay)
        if self.rounds_gradient_like_slot is not None:
            stored = slots[self.rounds_gradient_like_slot].dtype.real_dtype
            g = storage_rounding.as_held_by(g, stored)
        if not (is_known(decoupled, 0) and is_known(self.kept, 1)):
            p = self._factor(self.kept_by, decoupled, dtype) * p
        own = self._once(dtype, lambda: self._scalars_in(dtype))
        named = dict(zip(self.slots, real_slots, strict=True))
        results = self.formula(own, p, g, **named)
        return tuple(arithmetic.from_real(x, slot_dtype) for x in results)

    def _scalars_in(self, dtype: tf.DType) -> types.SimpleNamespace:
        return types.SimpleNamespace(
            sqrt=self.sqrt,
            **{name: tf.cast(x, dtype) for name, x in self.scalars.items()},
        )

    def kept_by(self, weight_decay: Scalar) -> Scalar:
        """Returns the factor that decoupled decay leaves of a variable."""
        if is_known(weight_decay, 0):
            return self.kept
        kept = arithmetic.kept_part(self.learning_rate, weight_decay)
        return kept * self.kept

    def _factor(
        self,
        make: Callable[[Scalar], Scalar],
        weight_decay: Scalar,
        dtype: tf.DType,
    ) -> tf.Tensor:
        """Computes a factor once for all variables that share a known decay."""

        def factor() -> tf.Tensor:
            return tf.cast(make(weight_decay), dtype)

        if not isinstance(weight_decay, (int, float)):
            return factor()
        return self._once((make, dtype, weight_decay), factor)


def pure_step(spec: RuleSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Checks the arguments of a rule's function and computes its step.

    Returns by name the new variable and slots, in the types of the old ones,
    and the shared state. Raises a ValueError if an argument can't be used.
    """
    variable = tensors.floating("variable", arguments["variable"])
    if spec.row_wise and scalars.mode("row_wise", arguments["row_wise"]):
        spec = spec.row_wise
        tensors.check_has_rows("variable", variable)
    spec.check_slots(arguments)

    def like_variable(
        name: str, dtypes: Sequence[tf.DType], *, by_row: bool = False
    ) -> tf.Tensor:
        return tensors.like(
            name, arguments[name], "variable", variable, dtypes, by_row=by_row
        )

    gradient = like_variable("gradient", [variable.dtype])
    dtype = arithmetic.slot_dtype(variable.dtype)
    narrower = _NARROWER.get(dtype, ())
    # Those that may be left out are None.
    old = {
        slot.name: like_variable(
            slot.name,
            (dtype, *(() if slot.exact or slot.by_row else narrower)),
            by_row=slot.by_row,
        )
        for slot in spec.slots
        if not (slot.needed_by and arguments[slot.name] is None)
    }
    numbers = _numbers(spec, arguments)
    update = dataclasses.replace(
        spec.with_slots(lambda slot: slot.name in old).bind(**numbers),
        sqrt=arithmetic.differentiable_sqrt,
    )
    weight_decay = scalars.real("weight_decay", arguments["weight_decay"])
    new = update(variable, gradient, list(old.values()), weight_decay)
    old = {"variable": variable, **old}
    results = {
        name: tf.cast(x, old[name].dtype)
        for name, x in zip(old, new, strict=True)
    }
    shared = {each.name: each.next(**numbers) for each in spec.shared}
    return results | shared


def _numbers(spec: RuleSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Checks the numbers and modes that the rule takes."""
    checks = {
        **{number.name: number.check for number in spec.numbers},
        **{
            mode: functools.partial(scalars.mode, mode)
            for mode in spec.all_modes
        },
        **{
            shared.name: functools.partial(scalars.real, shared.name)
            for shared in spec.shared
        },
    }
    first = {shared.name for shared in spec.shared if shared.first is None}
    return {
        name: None
        if name in first and arguments[name] is None
        else checks[name](arguments[name])
        for name in spec.bound
    }
