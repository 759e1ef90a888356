"""Swapping of averages and variables.

While averages are swapped in, each variable holds its average and vice versa,
and the step counter is -1 minus the number of steps. Traced steps can read
this, and a checkpoint contains both values.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import keras
import tensorflow as tf

from tf_opt.python.functional.arithmetic import Flag
from tf_opt.python.keras_internals import Variable, tf_variable
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
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
        # holds a rounded value. Here are the values of variables and averages
        # that were rounded, or None for values that were not.
        self._exact: list[tuple[tf.Tensor | None, tf.Tensor | None]] = [
            (None, None)
        ] * len(self._pairs)

    def swap_in(self, *, has_begun: bool) -> None:
        """Puts the averages in the variables' place.

        Before the averages have begun, the variables are their averages.
        """
        for k, (variable, average) in enumerate(self._pairs):
            value = tf.convert_to_tensor(variable)
            mean = tf.convert_to_tensor(average) if has_begun else value
            self._exact[k] = (
                _unless_exact(value, tf_variable(average).dtype),
                _unless_exact(mean, value.dtype),
            )
            access.assign(variable, mean)
            access.assign(average, value)

    def swap_out(self) -> None:
        """Restores the variables."""
        for (variable, average), (value, mean) in zip(
            self._pairs, self._exact, strict=True
        ):
            value = _restored(value, average)
            mean = _restored(mean, variable)
            access.assign(variable, value)
            access.assign(average, mean)


def _unless_exact(value: tf.Tensor, dtype: tf.DType) -> tf.Tensor | None:
    """Returns the value to keep, or None if it already has the type."""
    return None if value.dtype == dtype else value


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
