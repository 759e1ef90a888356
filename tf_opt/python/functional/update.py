"""Update of one variable: the part that is the same for all rules."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional import scalars
from tf_opt.python.functional import storage_rounding
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.step_frame import is_known
from tf_opt.python.functional.tensors import to_tensors


class Update:
    """Update of one variable by a rule whose scalars are those of one step."""

    def __init__(
        self,
        formula: Callable[..., Sequence[tf.Tensor]],
        *,
        learning_rate: tf.Tensor,
        decoupled_weight_decay: bool,
        maximize: bool,
        kept: Scalar = 1.0,
        rounds_gradient_like_slot: int | None = None,
        shared: Sequence[tf.Tensor] = (),
        **scalars: tf.Tensor,
    ) -> None:
        """Stores what all variables of the step share; scalars are float64.

        Args:
            formula: The rule. Takes a namespace of the scalars, the variable,
                the gradient and the slots, all real and of one type; returns
                the new variable and slots.
            learning_rate: The factor of a decoupled weight decay.
            decoupled_weight_decay: Whether the decay shrinks the variable or
                adds to the gradient (L2).
            maximize: Whether to ascend.
            kept: The factor by which another decay shrinks the variable.
            rounds_gradient_like_slot: The slot whose type gradients are rounded
                to, if any.
            shared: State of the next step that is not of single variables.
            **scalars: The formula's scalars. Each is rounded once to each type
                that needs it.
        """
        self._formula = formula
        self._learning_rate = learning_rate
        self._decoupled = decoupled_weight_decay
        self._maximize = maximize
        self._kept = kept
        self._rounds_gradient_like_slot = rounds_gradient_like_slot
        self._shared = shared
        self._scalars = scalars
        self._once = arithmetic.OncePerGraph()

    def __call__(
        self,
        variable: tf.Tensor,
        gradient: tf.Tensor,
        slots: Sequence[tf.Tensor],
        weight_decay: Scalar,
    ) -> tuple[tf.Tensor, ...]:
        """Returns the new variable and slots, and then the shared state.

        The tensors may have any types; the results have the arithmetic type.
        """
        slot_dtype = arithmetic.slot_dtype(variable.dtype)
        dtype = slot_dtype.real_dtype
        slots = list(slots)
        p, g, *real_slots = (
            arithmetic.as_real(x, dtype) for x in (variable, gradient, *slots)
        )
        coupled, decoupled = 0.0, weight_decay
        if not self._decoupled:
            coupled, decoupled = decoupled, coupled
        if self._maximize:
            g = -g
        if not is_known(coupled, 0):
            g = g + self._decay(coupled, dtype) * p
        if self._rounds_gradient_like_slot is not None:
            stored = slots[self._rounds_gradient_like_slot].dtype.real_dtype
            g = storage_rounding.as_held_by(g, stored)
        if not (is_known(decoupled, 0) and is_known(self._kept, 1)):
            p = self._kept_part(decoupled, dtype) * p
        results = self._formula(self._scalars_in(dtype), p, g, *real_slots)
        return (
            *(arithmetic.from_real(x, slot_dtype) for x in results),
            *self._shared,
        )

    def _scalars_in(self, dtype: tf.DType) -> types.SimpleNamespace:
        return self._once(
            dtype,
            lambda: types.SimpleNamespace(
                **{k: tf.cast(x, dtype) for k, x in self._scalars.items()}
            ),
        )

    def _decay(self, weight_decay: Scalar, dtype: tf.DType) -> tf.Tensor:
        return self._once_for(
            weight_decay,
            ("decay", dtype),
            lambda: tf.cast(arithmetic.float64(weight_decay), dtype),
        )

    def _kept_part(self, weight_decay: Scalar, dtype: tf.DType) -> tf.Tensor:
        def part() -> tf.Tensor:
            kept = self._kept
            if not is_known(weight_decay, 0):
                decay = arithmetic.float64(weight_decay)
                kept = (1 - self._learning_rate * decay) * kept
            return tf.cast(kept, dtype)

        return self._once_for(weight_decay, ("kept", dtype), part)

    def _once_for(
        self, weight_decay: Scalar, key: tuple, make: Callable[[], tf.Tensor]
    ) -> tf.Tensor:
        """Computes a tensor once for all variables that share a known decay."""
        if not isinstance(weight_decay, (int, float)):
            return make()
        return self._once((*key, weight_decay), make)


def pure_step(
    rule: Callable[..., Update],
    arguments: Mapping[str, Any],
    slots: Sequence[str],
    *,
    exact: Collection[str] = (),
) -> list[tf.Tensor]:
    """Checks a public function's arguments and computes its step.

    Args:
        rule: Takes a step's numbers and flags by name and returns the update.
        arguments: The function's arguments, by name.
        slots: The names of the slots, in the order of the rule.
        exact: The slots that must have the arithmetic type.

    Returns:
        The new variable and slots, in the types of the old ones, and then the
        shared state.

    Raises:
        ValueError: If an argument can't be used.
    """
    operands = to_tensors(
        arguments["variable"],
        arguments["gradient"],
        {name: arguments[name] for name in slots},
        exact,
    )
    update = rule(
        **{
            name: scalars.argument_of_rule(name, arguments[name])
            for name in inspect.signature(rule).parameters
            if name in arguments
        }
    )
    weight_decay = scalars.real("weight_decay", arguments["weight_decay"])
    variable, gradient, *old_slots = operands
    results = update(variable, gradient, old_slots, weight_decay)
    old = (variable, *old_slots)
    return [
        *(tf.cast(x, y.dtype) for x, y in zip(results, old, strict=False)),
        *results[len(old) :],
    ]
