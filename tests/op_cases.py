"""The op and the functional rule of each optimizer, and lists for a launch."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tf_opt

SHAPES = ((2, 3), (4,))
# Of ASGD's tables.
BATCHES = 3


class Op(NamedTuple):
    """What an op and its rule take.

    Attributes:
        apply: The op's function.
        rule: The functional rule.
        slots: Its slots.
        all_reals: Numbers, some of which only one of the two takes. A float16
            has them exactly.
        all_integers: The same of integers.
    """

    apply: Callable[..., None]
    rule: Callable[..., tuple[tf.Tensor, ...]]
    slots: tuple[str, ...]
    all_reals: dict[str, float]
    all_integers: dict[str, int]

    def reals(self, function: Callable[..., Any]) -> dict[str, float]:
        return _taken(function, self.all_reals)

    def integers(self, function: Callable[..., Any]) -> dict[str, int]:
        return _taken(function, self.all_integers)


def _taken(
    function: Callable[..., Any], arguments: dict[str, Any]
) -> dict[str, Any]:
    taken = inspect.signature(function).parameters
    return {name: x for name, x in arguments.items() if name in taken}


_MOMENTS = {
    "learning_rate": 0.5,
    "beta_1": 0.5,
    "beta_2": 0.75,
    "epsilon": 0.25,
}
OPS = {
    "adam": Op(
        tf_opt.ops.resource_apply_adam_amsgrad,
        tf_opt.functional.adam,
        ("m", "v", "v_max"),
        _MOMENTS,
        {"step": 3},
    ),
    "nadam": Op(
        tf_opt.ops.resource_apply_nadam,
        tf_opt.functional.nadam,
        ("m", "v"),
        {**_MOMENTS, "momentum_product": 0.25, "momentum_decay": 0.5},
        {"step": 3},
    ),
    "asgd": Op(
        tf_opt.ops.resource_apply_asgd,
        tf_opt.functional.asgd,
        ("d", "y"),
        {"learning_rate": 0.5},
        {"batch_index": 1, "seen_batches": 2},
    ),
    "averaged_sgd": Op(
        tf_opt.ops.resource_apply_averaged_sgd,
        tf_opt.functional.averaged_sgd,
        ("ax",),
        {
            "learning_rate": 0.5,
            "eta": 0.25,
            "lambd": 0.5,
            "alpha": 0.5,
            "t0": 1.0,
        },
        {"step": 3},
    ),
}


# Numbers that ops and rules refuse, and what they say.
OUT_OF_RANGE = {
    "step": (0, "`step` must be >= 1, got 0"),
    "seen_batches": (0, "`seen_batches` must be >= 1, got 0"),
    "beta_1": (1.0, r"`beta_1` must be in \[0, 1\), got 1"),
    "beta_2": (-0.5, r"`beta_2` must be in \[0, 1\), got -0.5"),
    "epsilon": (-1.0, "`epsilon` must be >= 0, got -1"),
    "momentum_decay": (-2.0, "`momentum_decay` must be >= 0, got -2"),
    "lambd": (-1.0, "`lambd` must be >= 0, got -1"),
    "t0": (-1.0, "`t0` must be >= 0, got -1"),
}


_COUNT = itertools.count()


def never_assigned(shape: tuple[int, ...]) -> tf.Tensor:
    """A handle; another one each time, as looking for it makes it."""
    return tf.raw_ops.VarHandleOp(
        dtype=tf.float32,
        shape=shape,
        shared_name=f"never_assigned_{next(_COUNT)}",
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
                        (BATCHES, *shape) if name == "y" else shape,
                        # A maximum is small, so that a step raises it.
                        5 + i - k,
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
        return {
            **self.lists,
            "gradients": self.gradients,
            **self.op.reals(self.op.apply),
            **self.op.integers(self.op.apply),
        }

    def apply(self, in_graph: bool = False, **changes: Any) -> Launch:
        """Runs the op; returns itself."""
        arguments = {**self.arguments(), **changes}

        def step() -> None:
            self.op.apply(**arguments)

        (tf.function(step) if in_graph else step)()
        return self


def call_rule(name: str, **changes: Any) -> tuple[tf.Tensor, ...]:
    """Calls a functional rule on small tensors."""
    op = OPS[name]
    tensors = {
        argument: tf.constant([1.0, 2.0 + i])
        for i, argument in enumerate(["variable", "gradient", *op.slots])
    }
    numbers = {**op.reals(op.rule), **op.integers(op.rule)}
    return op.rule(**{**tensors, "weight_decay": 0.5, **numbers, **changes})
