"""The functional rule as one call, for eager steps.

Op by op, an eager step is mostly what TensorFlow does around each op, and each
op writes its result to memory of its own. Here the rule is a function that is
traced once for each combination of types, for all variables of all optimizers:
it holds none of them, and what may change between steps is among its inputs.
Where a step reads and writes whole variables as they are, the function does
that as well: six calls fewer.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional.arithmetic import Scalar
from tf_opt.python.tensorflow_internals import has_op_callbacks
from tf_opt.python.tensorflow_internals import in_thread_of_tensorflow
from tf_opt.python.tensorflow_internals import traced

# Updates one variable. Takes the variable, its gradient, its slots and its
# weight decay; returns the new values of the variable and of the slots, and
# perhaps more.
Update = Callable[
    [tf.Tensor, tf.Tensor, Sequence[tf.Tensor], Scalar], Sequence[tf.Tensor]
]
# Binds a step's scalars, by name, and returns the update of one variable.
BindRule = Callable[..., Update]


# A process that was forked from this one lacks the threads that a function
# waits for; a thread that TensorFlow began may itself be the one.
_PROCESS = os.getpid()


def bind(rule: BindRule, numbers: Mapping[str, Any]) -> Update:
    """The rule of one step: in an eager one `KeptRule`, a function.

    Args:
        rule: The rule.
        numbers: What it takes: bools, and scalars in float64.
    """
    return KeptRule(rule, numbers) if _may_call() else rule(**numbers)


def _may_call() -> bool:
    """Whether the rule may be a function here, not its ops."""
    return (
        tf.executing_eagerly()
        and not tf.config.functions_run_eagerly()
        and os.getpid() == _PROCESS
        and not in_thread_of_tensorflow()
        # Who listens to each op hears of them.
        and not has_op_callbacks()
    )


class KeptRule:
    """A rule's functions with the numbers of one step."""

    def __init__(self, rule: BindRule, numbers: Mapping[str, Any]) -> None:
        self._rule = rule
        is_mode = {name: isinstance(x, bool) for name, x in numbers.items()}
        self._modes = tuple((k, x) for k, x in numbers.items() if is_mode[k])
        self._names = tuple(name for name in numbers if not is_mode[name])
        self._numbers = [numbers[name] for name in self._names]
        # By weight decay: most variables have the same.
        self._vectors: dict[float, tf.Tensor] = {}

    def __call__(
        self,
        variable: tf.Tensor,
        gradient: tf.Tensor,
        slots: Sequence[tf.Tensor],
        weight_decay: Scalar,
    ) -> Sequence[tf.Tensor]:
        """Updates one variable's value; see `Update`."""
        tensors = (gradient, variable, *slots)
        call = self._function(tensors, weight_decay, in_place=False)
        return call(self._vector(weight_decay), *tensors)

    def assign(
        self,
        variable: tf.Variable,
        gradient: tf.Tensor,
        slots: Sequence[tf.Variable],
        weight_decay: Scalar,
    ) -> None:
        """Updates one variable and its slots, each cast to its own type."""
        variables = (variable, *slots)
        operands = (gradient, *variables)
        call = self._function(operands, weight_decay, in_place=True)
        handles = [each.handle for each in variables]
        call(self._vector(weight_decay), gradient, *handles)

    def _function(
        self,
        operands: Sequence[tf.Tensor | tf.Variable],
        weight_decay: Scalar,
        *,
        in_place: bool,
    ) -> Callable[..., Sequence[tf.Tensor]]:
        is_known = isinstance(weight_decay, (int, float))
        return _function(
            self._rule,
            self._names,
            self._modes,
            not is_known or weight_decay != 0,
            tuple(operand.dtype for operand in operands),
            operands[1].device,
            in_place,
        )

    def _vector(self, weight_decay: Scalar) -> tf.Tensor:
        """The step's numbers and the variable's weight decay."""
        if not isinstance(weight_decay, (int, float)):
            return _vector([*self._numbers, weight_decay])
        vector = self._vectors.get(weight_decay)
        if vector is None:
            vector = _vector([*self._numbers, weight_decay])
            self._vectors[weight_decay] = vector
        return vector


def _vector(numbers: Sequence[Scalar]) -> tf.Tensor:
    """The numbers in float64: one input instead of many."""
    if all(isinstance(x, (int, float)) for x in numbers):
        return tf.constant(numbers, tf.float64)
    return tf.stack(list(map(arithmetic.float64, numbers)))


@functools.cache
def _function(
    rule: BindRule,
    names: Sequence[str],
    modes: Sequence[tuple[str, bool]],
    decays: bool,
    dtypes: Sequence[tf.DType],
    device: str,
    in_place: bool,
) -> Callable[..., Sequence[tf.Tensor]]:
    """A rule as a function of a step's numbers and of operands of any shape.

    The operands are the gradient, the variable and its slots, of these types.
    They are tensors, and the last ones' new values are returned; or, in place,
    those are handles, and nothing is returned.
    """
    gradient_dtype, *own_dtypes = dtypes

    def update(
        vector: tf.Tensor, gradient: tf.Tensor, *operands: tf.Tensor
    ) -> Sequence[tf.Tensor]:
        # Clusters have conditions, which one thread can't run.
        with (
            tf.device(device),
            tf.xla.experimental.jit_scope(compile_ops=False),
        ):
            *numbers, weight_decay = tf.unstack(vector)
            apply = rule(
                **dict(zip(names, numbers, strict=True)), **dict(modes)
            )
            variable, *slots = (
                map(_read, operands, own_dtypes) if in_place else operands
            )
            updated = apply(
                variable, gradient, slots, weight_decay if decays else 0.0
            )
            updated = tuple(updated[: len(operands)])
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

    specs = (
        [tf.TensorSpec([], tf.resource)] * len(own_dtypes)
        if in_place
        else [tf.TensorSpec(None, dtype) for dtype in own_dtypes]
    )
    return traced(
        update,
        [
            tf.TensorSpec([len(names) + 1], tf.float64),
            tf.TensorSpec(None, gradient_dtype),
            *specs,
        ],
        in_one_thread="CPU" in device,
    )


def _read(handle: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
