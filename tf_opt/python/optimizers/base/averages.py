"""Swapping of averages and variables.

While averages are swapped in, each variable holds its average, and the step
counter is -1 minus the number of steps. Traced steps can read this. A stored
average holds the variable's value meanwhile, so a checkpoint contains both.
Where the average is computed, the value can be computed again.

Other code may set the variables meanwhile, such as a callback that restores the
weights of the best epoch. It knows of no averages: what it sets is both the
weights to train and their average.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional.arithmetic import Flag, Scalar
from tf_opt.python.keras_internals import Optimizer, Variable
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.state.storage import Weight
from tf_opt.python.optimizers.values import variables as access
from tf_opt.python.tensorflow_internals import inside_xla


class Swap:
    """Variables and their averages, which change places."""

    def __init__(self, state: OptimizerState) -> None:
        self._state = state
        self._slots = {
            index: slot
            for index, slot in enumerate(state.averages_to_swap)
            if slot is not None
        }
        # What `swap_in` left in variables and slots. It takes no memory: while
        # nothing is assigned, tensors share the variables' buffers.
        self._left: list[list[tuple[Variable, tf.Tensor]]] = [[], []]
        # While averages are swapped in, the variable with the narrower type
        # holds a rounded value. Here are the exact values of such pairs.
        self._exact: dict[int, tuple[tf.Tensor, tf.Tensor]] = {}

    def swap_in(self) -> None:
        """Puts the averages in the variables' place."""
        for index, slot in self._slots.items():
            self._replace(index, self._state.variables[index], slot)
        variables = [self._state.variables[index] for index in self._slots]
        self._left = [
            [(x, tf.convert_to_tensor(x)) for x in each]
            for each in (variables, self._slots.values())
        ]

    def swap_out(self) -> None:
        """Restores the variables, unless other code has set one since.

        Then all stay, and their averages start as they are.
        """
        if self.weights_were_set():
            start_averages(self._state)
            return
        for index, slot in self._slots.items():
            self._restore(index, self._state.variables[index], slot)

    def weights_were_set(self) -> bool:
        """Returns whether other code has set variables since `swap_in`.

        What loads a file sets the slots, too: that isn't meant.
        """
        variables, slots = map(_differ, self._left)
        return variables and not slots

    def _replace(self, index: int, variable: Variable, slot: Variable) -> None:
        value = tf.convert_to_tensor(variable)
        mean = tf.convert_to_tensor(slot)
        if value.dtype != mean.dtype:
            self._exact[index] = (value, mean)
        access.assign(variable, mean)
        access.assign(slot, value)

    def _restore(self, index: int, variable: Variable, slot: Variable) -> None:
        value, mean = self._exact.get(index, (None, None))
        value, mean = _restored(value, slot), _restored(mean, variable)
        access.assign(variable, value)
        access.assign(slot, mean)


class ComputedSwap(Swap):
    """Variables whose averages are computed, with the slots that start as them.

    A variable is `weight * average + (1 - weight) * slot`.
    """

    def __init__(self, state: OptimizerState, weight: Scalar) -> None:
        super().__init__(state)
        self._weight = weight
        # While averages are swapped in: the variables' values.
        self._values: dict[int, tf.Tensor] = {}

    def _replace(self, index: int, variable: Variable, slot: Variable) -> None:
        value = Weight(self._state, index, variable).value
        self._values[index] = value
        access.assign(variable, self._from_slot(slot, value, average=True))

    def _restore(self, index: int, variable: Variable, slot: Variable) -> None:
        master = self._state.masters[index] if self._state.masters else None
        stored = tf.convert_to_tensor(variable)
        restored = self._from_slot(slot, stored)
        value = self._values.get(index, master)
        if value is not None:
            average = self._from_slot(slot, value, average=True)
            # Where the variable hasn't been loaded since.
            is_same = tf.equal(tf.cast(average, stored.dtype), stored)
            value = tf.cast(value, restored.dtype)
            restored = tf.where(is_same, value, restored)
        # A step takes a variable that isn't its rounded master weight.
        access.assign(variable, restored)

    def _from_slot(
        self, slot: Variable, value: Any, *, average: bool = False
    ) -> tf.Tensor:
        """Returns the average of a variable's value, or the inverse."""
        start = tf.convert_to_tensor(slot)
        factor = 1 / self._weight if average else self._weight
        factor = tf.cast(arithmetic.float64(factor), start.dtype)
        return start + factor * (tf.cast(value, start.dtype) - start)


def _differ(left: Sequence[tuple[Variable, tf.Tensor]]) -> bool:
    """Returns whether a variable isn't as it was left; NaN is as any value."""
    now = ((tf.convert_to_tensor(x), before) for x, before in left)
    return any(bool(tf.reduce_any((x != y) & (x == x))) for x, y in now)


def new_swap(optimizer: Optimizer, state: OptimizerState) -> Swap:
    """Returns a swap; raises a RuntimeError if there can be no averages."""
    name = state.spec.average_weight
    if not name:
        return Swap(state)
    weight = access.as_number(getattr(optimizer, name))
    if weight == 0:
        raise RuntimeError(
            f"There is no average with `{name}=0`: it has no part in the "
            f"variables, from which it is computed. Received: {optimizer}"
        )
    return ComputedSwap(state, weight)


def begin(optimizer: Optimizer, state: OptimizerState) -> None:
    """Lets averages start as the variables, before the first update.

    The variables may have been assigned since `build`.
    """
    if state.update_count(optimizer.gradient_accumulation_steps) == 0:
        start_averages(state)


def start_averages(state: OptimizerState) -> None:
    """Lets averages start as the variables are now."""
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
    if iterations is None:
        return False
    if not tf.executing_eagerly():
        raise RuntimeError(
            "Averages are swapped in eager mode: call this outside of "
            "`tf.function`."
        )
    # An array without elements where a traced function creates the optimizer.
    return bool((iterations.numpy() < 0).any())


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
