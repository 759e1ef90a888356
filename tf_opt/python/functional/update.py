"""Update of one variable: the part that is the same for all rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from tf_opt.python.functional import arithmetic, storage_rounding
from tf_opt.python.functional.arithmetic import Scalar, is_known
from tf_opt.python.functional.coasting import MissedStep


@dataclasses.dataclass(frozen=True)
class Formula:
    """A rule's formula, with its numbers in one step.

    Attributes:
        function: Takes a namespace of the step's numbers, `scalars` and `sqrt`,
            the variable, the gradient and, by name, the slots, all real and of
            one type; returns the new variable and slots.
        scalars: What else the formula reads, by name, in float64. Of the number
            `x` it can also read `one_minus_x`.
        rounds_gradient_like_slot: The slot whose type gradients are rounded to,
            if any.
        missed: Returns what the step does to rows that miss it, given the names
            of the slots; None if there is no such rule.
        takes_decay: Whether the function takes the decoupled decay as `decay`,
            in float64 or None if it is known to be 0. Otherwise the variable
            has shrunk before.
    """

    function: Callable[..., Sequence[tf.Tensor]]
    scalars: Mapping[str, tf.Tensor] = dataclasses.field(default_factory=dict)
    rounds_gradient_like_slot: int | None = None
    missed: Callable[[Sequence[str]], MissedStep] | None = None
    takes_decay: bool = False


@dataclasses.dataclass(frozen=True)
class Update:
    """Update of one variable by a rule in one step.

    Attributes:
        formula: The rule.
        numbers: The step's numbers by name, in float64. They and the formula's
            scalars are rounded once to each type that needs them.
        slots: The names of the slots.
        decoupled_weight_decay: Whether the decay shrinks the variable or adds
            to the gradient (L2).
        maximize: Whether to ascend.
        sqrt: The square root.
    """

    formula: Formula
    numbers: Mapping[str, tf.Tensor]
    slots: Sequence[str]
    decoupled_weight_decay: bool
    maximize: bool
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
        named = dict(zip(self.slots, real_slots, strict=True))
        if self.formula.takes_decay:
            is_zero = is_known(decoupled, 0)
            named["decay"] = None if is_zero else arithmetic.float64(decoupled)
            decoupled = 0.0
        if self.maximize:
            g = -g
        if not is_known(coupled, 0):
            decay = self._factor(arithmetic.float64, coupled, dtype)
            g = arithmetic.with_decay(g, p, decay)
        like = self.formula.rounds_gradient_like_slot
        if like is not None:
            g = storage_rounding.as_held_by(g, slots[like].dtype.real_dtype)
        if not is_known(decoupled, 0):
            p = self._factor(self.kept_by, decoupled, dtype) * p
        own = self._once(dtype, lambda: _Scalars(self, dtype))
        results = self.formula.function(own, p, g, **named)
        return tuple(arithmetic.from_real(x, slot_dtype) for x in results)

    def kept_by(self, weight_decay: Scalar) -> Scalar:
        """Returns the factor that decoupled decay leaves of a variable."""
        if is_known(weight_decay, 0):
            return 1.0
        return arithmetic.kept_part(self.numbers["learning_rate"], weight_decay)

    def missed(self) -> MissedStep:
        """Returns what the step does to rows that miss it."""
        return self.formula.missed(self.slots)

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


class _Scalars:
    """What a formula reads; each number is rounded when it is first read."""

    def __init__(self, update: Update, dtype: tf.DType) -> None:
        self.sqrt = update.sqrt
        self._dtype = dtype
        self._exact = {**update.numbers, **update.formula.scalars}

    def __getattr__(self, name: str) -> tf.Tensor:
        _, one_minus, number = name.rpartition("one_minus_")
        exact = self._exact[number]
        scalar = tf.cast(1 - exact if one_minus else exact, self._dtype)
        setattr(self, name, scalar)
        return scalar
