"""Swapping of averages and variables.

While averages are swapped in, each variable holds its average, and the step
counter is -1 minus the number of steps. Traced steps can read this. A stored
average holds the variable's value meanwhile, so a checkpoint contains both.
Where the average is computed, the value can be computed again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional.arithmetic import Flag, Scalar
from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers.state.optimizer_state import (
    OptimizerState,
    PerVariable,
)
from tf_opt.python.optimizers.state.storage import Weight
from tf_opt.python.optimizers.step.frame import update_count
from tf_opt.python.optimizers.step.settings import Settings
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.tensorflow_internals import inside_xla


class Swap:
    """Variables and their averages, which may be swapped."""

    def __init__(
        self,
        variables: Sequence[Variable],
        averages: Sequence[keras.Variable | None],
    ) -> None:
        """Takes the variables; those whose average is None are left out."""
        self._pairs = [
            (variable, average)
            for variable, average in zip(variables, averages, strict=True)
            if average is not None
        ]
        # While averages are swapped in, the variable with the narrower type
        # holds a rounded value. Here are the exact values of such pairs.
        self._exact: dict[int, tuple[tf.Tensor, tf.Tensor]] = {}

    def swap_in(self) -> None:
        """Puts the averages in the variables' place."""
        for k, (variable, average) in enumerate(self._pairs):
            value = tf.convert_to_tensor(variable)
            mean = tf.convert_to_tensor(average)
            if value.dtype != mean.dtype:
                self._exact[k] = (value, mean)
            access.assign(variable, mean)
            access.assign(average, value)

    def swap_out(self) -> None:
        """Restores the variables."""
        for k, (variable, average) in enumerate(self._pairs):
            value, mean = self._exact.get(k, (None, None))
            value = _restored(value, average)
            mean = _restored(mean, variable)
            access.assign(variable, value)
            access.assign(average, mean)


class ComputedSwap:
    """Variables whose averages are computed, with the slots that start as them.

    A variable is `weight * average + (1 - weight) * slot`.
    """

    def __init__(
        self, state: OptimizerState, slots: PerVariable, weight: Scalar
    ) -> None:
        self._state = state
        self._slots = {
            i: slot for i, slot in enumerate(slots) if slot is not None
        }
        self._weight = weight
        # While averages are swapped in: the variables' values.
        self._values: dict[int, tf.Tensor] = {}

    def swap_in(self) -> None:
        """Puts the averages in the variables' place."""
        for index in self._slots:
            variable = self._state.variables[index]
            value = Weight(self._state, index, variable).value
            self._values[index] = value
            access.assign(variable, self._from_slot(index, value, average=True))

    def swap_out(self) -> None:
        """Restores the variables, exactly if their values are known."""
        for index in self._slots:
            variable = self._state.variables[index]
            master = self._state.masters[index] if self._state.masters else None
            stored = tf.convert_to_tensor(variable)
            restored = self._from_slot(index, stored)
            value = self._values.get(index, master)
            if value is not None:
                average = self._from_slot(index, value, average=True)
                # Where the variable hasn't changed since.
                is_same = tf.equal(tf.cast(average, stored.dtype), stored)
                value = tf.cast(value, restored.dtype)
                restored = tf.where(is_same, value, restored)
            # A step takes a variable that isn't its rounded master weight.
            access.assign(variable, restored)

    def _from_slot(
        self, index: int, value: Any, *, average: bool = False
    ) -> tf.Tensor:
        """Returns the average of a variable's value, or the inverse."""
        slot = tf.convert_to_tensor(self._slots[index])
        factor = 1 / self._weight if average else self._weight
        factor = tf.cast(arithmetic.float64(factor), slot.dtype)
        return slot + factor * (tf.cast(value, slot.dtype) - slot)


AnySwap = Swap | ComputedSwap


def new_swap(
    optimizer: keras.optimizers.Optimizer, state: OptimizerState
) -> AnySwap:
    """Returns a swap of the variables of an optimizer that has averages.

    Raises:
        RuntimeError: If they can't be computed.
    """
    name = state.spec.average_weight
    if not name:
        return Swap(state.variables, state.averages_to_swap)
    weight = access.as_number(getattr(optimizer, name))
    if weight == 0:
        raise RuntimeError(
            f"There is no average with `{name}=0`: it has no part in the "
            f"variables, from which it is computed. Received: {optimizer}"
        )
    return ComputedSwap(state, state.averages_to_swap, weight)


def begin(settings: Settings, state: OptimizerState) -> None:
    """Lets averages start as the variables, before the first update.

    The variables may have been assigned since `build`.
    """
    if update_count(settings, state) == 0:
        for index, slot in enumerate(state.averages_to_swap):
            if slot is not None:
                weight = Weight(state, index, state.variables[index])
                access.assign(slot, weight.value)


def _restored(exact: tf.Tensor | None, variable: Variable) -> tf.Tensor:
    """Returns the exact value, except where the variable has changed since."""
    stored = tf.convert_to_tensor(variable)
    if exact is None:
        return stored
    is_rounded = tf.equal(tf.cast(exact, stored.dtype), stored)
    return tf.where(is_rounded, exact, tf.cast(stored, exact.dtype))


def are_swapped_in(iterations: keras.Variable | None) -> bool:
    """Returns whether averages are swapped in; None: there are none."""
    if not tf.executing_eagerly():
        raise RuntimeError(
            "Averages are swapped in eager mode: call this outside of "
            "`tf.function`."
        )
    # An array without elements where a traced function creates the optimizer.
    return iterations is not None and bool((iterations.numpy() < 0).any())


@contextlib.contextmanager
def forbid_step(iterations: keras.Variable) -> Iterator[Flag]:
    """Context manager for a step, which swapped-in averages forbid.

    Yields:
        Whether the step may run. It is a tensor inside XLA and on a GPU, where
        a step can't raise errors.

    Raises:
        RuntimeError: If the averages are swapped in. In a `tf.function` that
            was traced before, this is a `tf.errors.InvalidArgumentError`.
    """
    message = (
        "The average is in the variables' place: a step would train it. Call "
        "`optimizer.swap_out_average()` first."
    )
    is_eager = tf.executing_eagerly()
    # A graph's error hides the message, so the trace reads the counter, too.
    with contextlib.nullcontext() if is_eager else tf.init_scope():
        if tf.executing_eagerly() and are_swapped_in(iterations):
            raise RuntimeError(message)
    if is_eager:
        yield True
        return
    may_step = tf.convert_to_tensor(iterations) >= 0
    if inside_xla() or access.on_gpu(iterations):
        yield may_step
        return
    check = tf.debugging.Assert(may_step, [message])
    with tf.control_dependencies([check]):
        yield True


def overwrite_variables(
    state: OptimizerState, variables: Sequence[Variable]
) -> None:
    """Assigns the averages to these variables and their master weights.

    Those of other optimizers stay as they are. Keras' method goes by position,
    which is wrong for some of the variables or another order. It doesn't
    convert types or accept None.
    """
    for variable in variables:
        try:
            index = state.index_of(variable)
        except KeyError:
            continue
        average = state.averages[index]
        master = state.masters[index] if state.masters else None
        for target in () if average is None else (variable, master):
            if target is not None:
                access.assign(target, tf.convert_to_tensor(average))
