"""Everyone whose step with 16-bit variables or state is timed."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from collections.abc import Collection

import contenders
from low_precision_variants import TORCH_BFLOAT16
from low_precision_variants import TORCH_FLOAT32
from low_precision_variants import LowPrecision
from low_precision_variants import Precision
from optional_torch import torch

# isort: split
import keras
import tensorflow as tf
import tf_opt

import memory_floor
import torch_contenders
import variants
from measure import Contender
from shapes import Workload


class Problem:
    """Variables of one type on one model: what contenders share.

    The gradients, and what the floors move: contenders of one type of
    variables have to fit into memory together, also with the largest model.
    """

    def __init__(self, variant: LowPrecision, workload: Workload) -> None:
        """States the problem.

        Args:
            variant: Who keeps what.
            workload: The model.
        """
        self.variant = variant
        self.workload = workload
        self._arrays: dict[str, list[tf.Variable]] = {}

    @functools.cached_property
    def own(self) -> contenders.Problem:
        """The model in the variables' type."""
        return contenders.Problem(self.variant, self.workload)

    @functools.cached_property
    def float32(self) -> contenders.Problem:
        """The model in float32."""
        if self.variant.dtype == "float32":
            return self.own
        return contenders.Problem(variants.VARIANTS["adam"], self.workload)

    @functools.cached_property
    def floor_gradient(self) -> tf.Tensor:
        """The gradient that the floors read."""
        return self._values(self.variant.dtype)

    def floor_arrays(self, precision: Precision) -> list[tf.Variable]:
        """What a floor reads and writes.

        Args:
            precision: Whose.

        Returns:
            One array for each of its own, shared with the other floors.
        """
        arrays = []
        types = collections.Counter(map(_stand_in, precision.arrays))
        for dtype, count in types.items():
            known = self._arrays.setdefault(dtype, [])
            while len(known) < count:
                known.append(tf.Variable(self._values(dtype)))
            arrays += known[:count]
        return arrays

    def _values(self, dtype: str) -> tf.Tensor:
        values = tf.random.normal([self.workload.parameters], stddev=0.02)
        return tf.cast(values, _stand_in(dtype))


def _stand_in(dtype: str) -> str:
    """A type of the same size that the floors know."""
    return "bfloat16" if dtype == "float16" else dtype


def _floor(problem: Problem, precision: Precision) -> Contender:
    # Made here: within the function they would be its own.
    gradient = problem.floor_gradient
    arrays = problem.floor_arrays(precision)

    def step() -> None:
        memory_floor.move(gradient, arrays, (len(arrays),))

    return contenders.in_graph(Contender(step, contenders.norms_of(arrays)))


def _tf_opt(problem: Problem, precision: Precision) -> Contender:
    optimizer = tf_opt.Adam(
        **problem.variant.arguments,
        **problem.variant.own_arguments,
        master_weights=precision.master_weights,
        stochastic_rounding=precision.stochastic_rounding,
        # The next of Keras' seeds would do as well, but not from run to run.
        seed=0,
        state_dtype=precision.state,
        implementation="custom_op",
    )
    return contenders.in_graph(problem.own.eager(optimizer))


def _keras(problem: Problem) -> Contender:
    optimizer = keras.optimizers.Adam(**problem.variant.arguments)
    eager = problem.own.eager(optimizer)
    if problem.variant.dtype == "bfloat16":
        # There beta_2 is 1, and so the step size 0: the variables stand still,
        # but the moments can be seen to move.
        moments = [slot.value for slot in optimizer.variables[2:]]
        eager = Contender(eager.step, contenders.norms_of(moments))
    return contenders.in_graph(eager)


def _torch(problem: contenders.Problem) -> Contender:
    return torch_contenders.contender(
        problem.torch_model, problem.variant, "fused"
    )


# How to make each contender that is neither a floor nor tf_opt.
_OTHERS: dict[str, Callable[[Problem], Contender]] = {
    TORCH_FLOAT32: lambda problem: _torch(problem.float32),
    TORCH_BFLOAT16: lambda problem: _torch(problem.own),
    variants.KERAS: _keras,
}


def make(
    variant: LowPrecision, workload: Workload, without: Collection[str]
) -> dict[str, Contender]:
    """Makes the contenders that can run on this machine.

    Args:
        variant: Who keeps what.
        workload: The model.
        without: The names of those to leave out.

    Returns:
        The contenders, by name.
    """
    problem = Problem(variant, workload)

    def one(name: str) -> Contender:
        if name in variant.floors:
            return _floor(problem, variant.floors[name])
        if name in _OTHERS:
            return _OTHERS[name](problem)
        return _tf_opt(problem, variant.precisions[name])

    return {
        name: one(name)
        for name in variant.contenders
        if name not in without
        and (torch is not None or not name.startswith("torch"))
    }
