"""Swapping of averages and variables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python.keras_internals import Variable
from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.optimizers.base.building import BuiltOptimizer
from tf_opt.python.optimizers.state.optimizer_state import PerVariable
from tf_opt.python.optimizers.values.flags import Flag
from tf_opt.python.tensorflow_internals import inside_xla


class AveragedOptimizer(BuiltOptimizer):
    """Base class: lets users evaluate and save a model with its averages.

    While averages are swapped in, each variable holds its average and vice
    versa, and `_iterations` is -1 minus the number of steps. Traced steps can
    read this, and a checkpoint contains both values.
    """

    # While averages are swapped in: the values of variables and averages that
    # were rounded, or None for values that were not.
    _swapped: list[tuple[tf.Tensor | None, tf.Tensor | None]] | None = None

    def _has_average(self) -> bool:
        """Returns whether the optimizer keeps averages of the variables."""
        return self.use_ema

    def _average_has_begun(self) -> bool:
        """Returns whether the averages hold values of the variables."""
        return bool(self._iterations.numpy() > 0)

    def _averages_of_variables(self) -> PerVariable:
        return self._state.averages

    def _averaged(self) -> list[tuple[Variable, keras.Variable]]:
        return [
            (variable, average)
            for variable, average in zip(
                self._state.variables,
                self._averages_of_variables(),
                strict=True,
            )
            if average is not None
        ]

    @property
    def average_is_swapped_in(self) -> bool:
        """Whether the averages are in the variables' place."""
        if not tf.executing_eagerly():
            raise RuntimeError(
                "Averages are swapped in eager mode: call this outside of "
                "`tf.function`."
            )
        return self._has_average() and bool(self._iterations.numpy() < 0)

    def swap_in_average(self) -> None:
        """Swaps the variables with their averages, for evaluation or saving.

        The averages are the moving averages of `use_ema=True`, or those of
        `AveragedSGD`. The variables' values are kept, also in a checkpoint or a
        saved model, and `swap_out_average` restores them. Until then, a step
        raises an error. (Inside XLA and on a GPU, the composed implementation
        can't raise errors; a step does nothing there.)

        Raises:
            RuntimeError: If the optimizer keeps no averages or isn't built, the
                averages are swapped in already, or this is called in a
                `tf.function`.
        """
        if not self._has_average():
            raise RuntimeError(
                "There is no average: the optimizer needs `use_ema=True`. "
                f"Received: {self}"
            )
        if not self.built:
            raise RuntimeError(
                "There is no average yet: the optimizer has not been built. "
                "Train first, or call `optimizer.build(variables)`."
            )
        if self.average_is_swapped_in:
            raise RuntimeError(
                "The average is in the variables' place already; call "
                "`swap_out_average()` first."
            )
        has_begun = self._average_has_begun()
        kept = []
        for variable, average in self._averaged():
            value = tf.convert_to_tensor(variable)
            mean = tf.convert_to_tensor(average) if has_begun else value
            kept.append(
                (
                    _unless_exact(value, tf_variable(average).dtype),
                    _unless_exact(mean, value.dtype),
                )
            )
            self.assign(variable, mean)
            self.assign(average, value)
        object.__setattr__(self, "_swapped", kept)
        self._iterations.assign(-1 - self._iterations)

    def swap_out_average(self) -> None:
        """Restores the variables that `swap_in_average` replaced.

        The values are exact, even if the average's type is narrower than the
        variable's. The exception is a model that was saved with its averages
        swapped in and then loaded: its values were rounded to the narrower
        type.

        Raises:
            RuntimeError: If the averages aren't swapped in.
        """
        if not self.average_is_swapped_in:
            raise RuntimeError(
                "The average is not in the variables' place; call "
                "`swap_in_average()` first."
            )
        pairs = self._averaged()
        kept = self._swapped or [(None, None)] * len(pairs)
        for (variable, average), (value, mean) in zip(pairs, kept, strict=True):
            value = _restored(value, average)
            mean = _restored(mean, variable)
            self.assign(variable, value)
            self.assign(average, mean)
        object.__setattr__(self, "_swapped", None)
        self._iterations.assign(-1 - self._iterations)

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Swaps the averages in for the body of a `with` statement.

        Example: `with optimizer.averaged_weights(): model.save("best.keras")`.

        Raises:
            RuntimeError: As in `swap_in_average`.
        """
        self.swap_in_average()
        try:
            yield
        finally:
            self.swap_out_average()

    def finalize_variable_values(self, var_list: Sequence[Variable]) -> None:
        """Restores the variables; Keras calls this at the end of `fit`.

        With `use_ema`, Keras then overwrites them with their averages.

        Args:
            var_list: The model's trainable variables.
        """
        if self.average_is_swapped_in:
            self.swap_out_average()
        super().finalize_variable_values(var_list)

    @property
    def iterations(self) -> Any:
        """The number of steps, or of updates with gradient accumulation."""
        if self.gradient_accumulation_steps:
            return self._steps() // self.gradient_accumulation_steps
        return self._steps()

    def _steps(self) -> Any:
        """Returns the number of steps, those that only accumulate included."""
        if tf.executing_eagerly() and self.average_is_swapped_in:
            return -1 - tf.convert_to_tensor(self._iterations)
        return self._iterations

    def _scheduled_step(self) -> Any:
        by_updates = self.schedule_by == "updates"
        return self.iterations if by_updates else self._steps()

    @contextlib.contextmanager
    def _unless_swapped_in(self) -> Iterator[Flag]:
        """Context manager for a step; swapped-in averages forbid it.

        Yields:
            Whether the step may run. It is a tensor inside XLA and on a GPU,
            where a step can't raise errors.

        Raises:
            RuntimeError: If the averages are swapped in. In a `tf.function`
                this is a `tf.errors.InvalidArgumentError`.
        """
        if not self._has_average():
            yield True
            return
        message = (
            "The average is in the variables' place: a step would train it. "
            "Call `swap_out_average()` first."
        )
        if tf.executing_eagerly():
            if self.average_is_swapped_in:
                raise RuntimeError(message)
            yield True
            return
        may_step = tf.convert_to_tensor(self._iterations) >= 0
        if inside_xla() or "GPU" in self._iterations.value.device:
            yield may_step
            return
        check = tf.debugging.Assert(may_step, [message])
        with tf.control_dependencies([check]):
            yield True


# While they are swapped, the variable with the narrower type holds a rounded
# value.


def _unless_exact(value: tf.Tensor, dtype: tf.DType) -> tf.Tensor | None:
    """Returns the value to keep, or None if it already has the type."""
    return None if value.dtype == dtype else value


def _restored(kept: tf.Tensor | None, variable: Variable) -> tf.Tensor:
    """Returns the exact value, except where the variable has changed since."""
    stored = tf.convert_to_tensor(variable)
    if kept is None:
        return stored
    is_rounded = tf.equal(tf.cast(kept, stored.dtype), stored)
    return tf.where(is_rounded, kept, tf.cast(stored, kept.dtype))
