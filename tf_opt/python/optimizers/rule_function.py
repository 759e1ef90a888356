"""The functional rule as one call, for eager steps.

Op by op, an eager step is mostly what TensorFlow does around each op, and each
op writes its result to memory of its own. Here the rule is a function that is
traced once for each combination of types, for all variables of all optimizers:
it holds none of them, and what may change between steps is among its inputs.
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
from tf_opt.python.tensorflow_internals import traced

# Updates one variable: takes it, its gradient, its slots and its weight decay,
# and returns its new value, its new slots and perhaps more.
Update = Callable[
    [tf.Tensor, tf.Tensor, Sequence[tf.Tensor], Scalar], Sequence[tf.Tensor]
]
# Computes a step's scalars out of its numbers and modes, by their names.
Rule = Callable[..., Update]


# A process that was forked from this one lacks the threads that a function
# waits for.
_PROCESS = os.getpid()


def bind(rule: Rule, numbers: Mapping[str, Any]) -> Update:
    """The rule of one step: in an eager one as a function that is kept.

    Args:
        rule: The rule.
        numbers: What it takes: bools, and scalars in float64.
    """
    if (
        not tf.executing_eagerly()
        or tf.config.functions_run_eagerly()
        or os.getpid() != _PROCESS
    ):
        return rule(**numbers)
    return _Calls(rule, numbers)


class _Calls:
    """A rule's functions with the numbers of one step."""

    def __init__(self, rule: Rule, numbers: Mapping[str, Any]) -> None:
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
        is_known = isinstance(weight_decay, (int, float))
        tensors = (variable, gradient, *slots)
        function = _function(
            self._rule,
            self._names,
            self._modes,
            not is_known or weight_decay != 0,
            tuple(tensor.dtype for tensor in tensors),
            variable.device,
        )
        vector = self._vectors.get(weight_decay) if is_known else None
        if vector is None:
            vector = _vector([*self._numbers, weight_decay])
            if is_known:
                self._vectors[weight_decay] = vector
        return function(vector, *tensors)


def _vector(numbers: Sequence[Scalar]) -> tf.Tensor:
    """The numbers in float64: one input instead of many."""
    if all(isinstance(x, (int, float)) for x in numbers):
        return tf.constant(numbers, tf.float64)
    return tf.stack(list(map(arithmetic.float64, numbers)))


@functools.cache
def _function(
    rule: Rule,
    names: Sequence[str],
    modes: Sequence[tuple[str, bool]],
    decays: bool,
    dtypes: Sequence[tf.DType],
    device: str,
) -> Callable[..., Sequence[tf.Tensor]]:
    """A rule as a function of a step's numbers and of tensors of any shape."""

    def update(
        vector: tf.Tensor,
        variable: tf.Tensor,
        gradient: tf.Tensor,
        *slots: tf.Tensor,
    ) -> Sequence[tf.Tensor]:
        with tf.device(device):
            *numbers, weight_decay = tf.unstack(vector)
            apply = rule(
                **dict(zip(names, numbers, strict=True)), **dict(modes)
            )
            updated = apply(
                variable, gradient, slots, weight_decay if decays else 0.0
            )
        return tuple(updated[: 1 + len(slots)])

    return traced(
        update,
        [
            tf.TensorSpec([len(names) + 1], tf.float64),
            *(tf.TensorSpec(None, dtype) for dtype in dtypes),
        ],
        in_one_thread="CPU" in device,
    )
