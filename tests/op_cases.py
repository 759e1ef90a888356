"""The op and the functional rule of each optimizer, and lists for a launch."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_opt
from tf_opt.python.functional.rule_spec import Range, RuleSpec
from tf_opt.python.functional.rules import RULES
from tf_opt.python.ops.calls import ResourceApplyOp, resource_apply

SHAPES = ((2, 3), (4,))
# Of ASGD's tables.
BATCHES = 4


def out_of(range_: Range) -> list[float]:
    """Numbers on either side of a range, unless that has no end there."""
    sides = range_.least - 1, range_.bound + range_.includes_bound
    return list(filter(math.isfinite, sides))


class Op:
    """What an op and its rule take.

    Attributes:
        tables: Slots that are tables.
        reals: Numbers of both. All differ, and a float16 has them exactly.
        integers: The same of integers.
        out_of_range: By what is wrong: a number, what ops and rules refuse,
            and what they say.
    """

    def __init__(self, spec: RuleSpec) -> None:
        self.spec = spec
        self.rule = getattr(tf_opt.functional, spec.function.__name__)
        self.slots = tuple(slot.name for slot in spec.slots)
        self.optional_slots = {x.name for x in spec.slots if x.needed_by}
        self.tables = {x.name for x in spec.slots if x.layer_input}
        reals = [x for x in spec.numbers if not x.is_count]
        negative = {x.name for x in reals if x.range.bound == 0}
        self.reals = {
            x.name: (1 + i) / (-8 if x.name in negative else 8)
            for i, x in enumerate([*reals, *spec.shared])
        }
        self.integers = {x.name: 3 for x in spec.numbers if x.is_count}
        numbers = {**self.reals, **self.integers}
        of_rule_only = {x.name for x in spec.numbers if not x.in_op}
        self.rule_numbers = {x: numbers[x] for x in numbers if x in spec.bound}
        self.op_numbers = {
            x: numbers[x] for x in numbers if x not in of_rule_only
        }
        self.out_of_range: dict[str, tuple[str, float, str]] = {}
        for number in spec.numbers:
            text = re.escape(number.range.text)
            for wrong in out_of(number.range):
                self.out_of_range[f"{number.name} of {wrong:g}"] = (
                    number.name,
                    int(wrong) if number.is_count else wrong,
                    f"`{number.name}` must be {text}, got {wrong:g}",
                )

    def apply(self, **arguments: Any) -> None:
        """Runs the op; what is left out has the rule's default."""
        defaults = {
            **dict.fromkeys(self.optional_slots, ()),
            **self.rule.__kwdefaults__,
        }
        op = ResourceApplyOp(self.spec.op_name)
        resource_apply(op, **{**defaults, **arguments})


OPS = {
    spec.function.__name__: Op(spec)
    for spec in RULES
    if spec.op is not None and not spec.op_arguments
}


def never_assigned(shape: tuple[int, ...]) -> tf.Tensor:
    """A handle; another one each time, as looking for it makes it."""
    return tf.raw_ops.VarHandleOp(
        dtype=tf.float32, shape=shape, shared_name=uuid.uuid4().hex
    )


class Launch:
    """Variables, slots and gradients for an op; all numbers differ."""

    def __init__(
        self,
        name: str,
        shapes: Sequence[tuple[int, ...]] = SHAPES,
        make: Callable[[np.ndarray], Any] = tf.Variable,
    ) -> None:
        self.op = OPS[name]
        self.lists = {
            name: [
                make(
                    np.full(
                        (BATCHES, *shape) if name in self.op.tables else shape,
                        # A maximum is small, so that a step raises it.
                        5 + i - 2 * k,
                        "float32",
                    )
                )
                for i, shape in enumerate(shapes)
            ]
            for k, name in enumerate(("variables", *self.op.slots))
        }
        self.gradients = [tf.fill(shape, 0.125) for shape in shapes]

    def everything(self) -> list[tf.Variable]:
        return [x for variables in self.lists.values() for x in variables]

    def numpy(self) -> list[np.ndarray]:
        return [x.numpy() for x in self.everything()]

    def arguments(self) -> dict[str, Any]:
        return {**self.lists, "gradients": self.gradients, **self.op.op_numbers}

    def apply(self, **changes: Any) -> Launch:
        """Runs the op; returns itself."""
        self.op.apply(**{**self.arguments(), **changes})
        return self


def call_rule(name: str, **changes: Any) -> tuple[tf.Tensor, ...]:
    """Calls a functional rule on small tensors."""
    op = OPS[name]
    tensors = {
        argument: tf.constant([1.0, 2.0 + i])
        for i, argument in enumerate(["variable", "gradient", *op.slots])
    }
    numbers = {**op.rule_numbers, "weight_decay": 0.5}
    return op.rule(**{**tensors, **numbers, **changes})
