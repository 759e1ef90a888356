"""Functional rule as one function call, for eager steps.

Op by op, an eager step spends most of its time on TensorFlow's overhead for
each op, and every op allocates its result. This module traces the rule into a
function instead, once for each combination of types, for all variables of all
optimizers; for matrices also once for each layout. The function holds no
variables, and all numbers that may change between steps are inputs. If a step
updates whole variables in place, the function also reads and writes them, which
saves six calls.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.functional.rule_spec import RuleSpec
from tf_opt.python.tensorflow_internals import (
    has_op_callbacks,
    in_thread_of_tensorflow,
    traced,
)

# Updates one variable. Takes the variable, its gradient, its slots and its
# weight decay; returns the new values of the variable and the slots.
Apply = Callable[
    [tf.Tensor, tf.Tensor, Sequence[tf.Tensor], Scalar], Sequence[tf.Tensor]
]
# Binds a step's scalars, by name, and returns the update of one variable.
BindRule = Callable[..., Apply]


# Calling a function could wait forever in a process forked from this one, which
# lacks TensorFlow's threads, and in one of these threads itself.
_PROCESS = os.getpid()


def bind(spec: RuleSpec, numbers: Mapping[str, Any]) -> Apply:
    """Returns the update of one step, as a `KeptRule` in eager steps."""
    may_call = (
        tf.executing_eagerly()
        and not tf.config.functions_run_eagerly()
        and os.getpid() == _PROCESS
        and not in_thread_of_tensorflow()
        # Callbacks want to see each op of the rule.
        and not has_op_callbacks()
    )
    return KeptRule(spec, numbers) if may_call else spec.bind(**numbers)


class KeptRule:
    """Functions of a rule, with the numbers of one step."""

    def __init__(self, spec: RuleSpec, numbers: Mapping[str, Any]) -> None:
        self._spec = spec
        static = spec.static
        modes = {k: x for k, x in numbers.items() if x is None or k in static}
        numbers = {k: x for k, x in numbers.items() if k not in modes}
        self._modes = tuple(modes.items())
        self._names, self._numbers = tuple(numbers), list(numbers.values())
        # Cached by weight decay, which most variables share.
        self._vectors: dict[float, tf.Tensor] = {}

    def __call__(
        self,
        variable: tf.Tensor | tf.Variable,
        gradient: tf.Tensor,
        slots: Sequence[tf.Tensor | tf.Variable],
        weight_decay: Scalar,
    ) -> Sequence[tf.Tensor]:
        """Updates one variable; see `Apply`.

        If `variable` and `slots` are variables, it assigns the new values, each
        cast to the variable's type, and returns nothing.
        """
        operands = (gradient, variable, *slots)
        in_place = isinstance(variable, tf.Variable)
        is_known = isinstance(weight_decay, (int, float))
        modes, rank = self._modes, None
        if self._spec.layout_of is not None:
            modes += (("layout", self._spec.layout_of(variable.shape)),)
            rank = len(variable.shape)
        call = _function(
            self._spec.bind,
            self._names,
            modes,
            not is_known or weight_decay != 0,
            tuple(operand.dtype for operand in operands),
            rank,
            variable.device,
            in_place,
        )
        if in_place:
            operands = (gradient, *(x.handle for x in operands[1:]))
        return call(self._vector(weight_decay), *operands)

    def _vector(self, weight_decay: Scalar) -> tf.Tensor:
        """Returns the step's numbers and the variable's weight decay."""
        if not isinstance(weight_decay, (int, float)):
            return _vector([*self._numbers, weight_decay])
        vector = self._vectors.get(weight_decay)
        if vector is None:
            vector = _vector([*self._numbers, weight_decay])
            self._vectors[weight_decay] = vector
        return vector


def _vector(numbers: Sequence[Scalar]) -> tf.Tensor:
    """Packs numbers into a float64 vector: one input instead of many."""
    if all(isinstance(x, (int, float)) for x in numbers):
        return tf.constant(numbers, tf.float64)
    return tf.stack(list(map(arithmetic.float64, numbers)))


@functools.cache
def _function(
    rule: BindRule,
    names: Sequence[str],
    modes: Sequence[tuple[str, bool | int | None]],
    decays: bool,
    dtypes: Sequence[tf.DType],
    rank: int | None,
    device: str,
    in_place: bool,
) -> Callable[..., Sequence[tf.Tensor]]:
    """Traces a rule into a function of a step's numbers and of operands.

    The operands are the gradient, the variable and its slots, of these types
    and of any shape of this rank; None is any rank. With `in_place`, variable
    and slots are handles, and the function assigns their new values. Otherwise
    they are tensors, and the function returns the new values.
    """
    gradient_dtype, *own_dtypes = dtypes

    def read(handle: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        return tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)

    def update(
        vector: tf.Tensor, gradient: tf.Tensor, *operands: tf.Tensor
    ) -> Sequence[tf.Tensor]:
        # XLA's clusters contain conditions, which one thread can't run.
        with (
            tf.device(device),
            tf.xla.experimental.jit_scope(compile_ops=False),
        ):
            *numbers, weight_decay = tf.unstack(vector)
            apply = rule(
                **dict(zip(names, numbers, strict=True)), **dict(modes)
            )
            variable, *slots = (
                map(read, operands, own_dtypes) if in_place else operands
            )
            updated = apply(
                variable, gradient, slots, weight_decay if decays else 0.0
            )
            if not in_place:
                return updated
            for handle, value, dtype in zip(
                operands, updated, own_dtypes, strict=True
            ):
                tf.raw_ops.AssignVariableOp(
                    resource=handle,
                    value=tf.cast(value, dtype),
                    validate_shape=True,
                )
            return ()

    shape = None if rank is None else [None] * rank
    specs = (
        [tf.TensorSpec([], tf.resource)] * len(own_dtypes)
        if in_place
        else [tf.TensorSpec(shape, dtype) for dtype in own_dtypes]
    )
    return traced(
        update,
        [
            tf.TensorSpec([len(names) + 1], tf.float64),
            tf.TensorSpec(shape, gradient_dtype),
            *specs,
        ],
        in_one_thread="CPU" in device,
    )
