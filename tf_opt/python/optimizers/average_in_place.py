"""The average of an optimizer in the place of its variables, and back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python.keras_internals import KerasOptimizer
from tf_opt.python.keras_internals import Variable
from tf_opt.python.keras_internals import tf_variable
from tf_opt.python.optimizers import swapped
from tf_opt.python.optimizers.flags import Flag
from tf_opt.python.tensorflow_internals import inside_xla


class AverageInPlace(KerasOptimizer):
    """An optimizer whose average can be used, and refuses to be trained.

    While it is in place, each variable and its average have changed places, and
    the number of steps n, never negative by itself, is stored as -1 - n. So a
    traced step sees it, and whatever was saved meanwhile holds all there is.
    """

    # While the average is in place: what variables and averages were, where
    # they were rounded.
    _swapped: list[tuple[tf.Tensor | None, tf.Tensor | None]] | None = None

    def swap_in_average(self) -> None:
        """Puts the average in the variables' place, for use or for saving.

        This is the moving average of `use_ema=True`; `AveragedSGD` has its own.
        What the variables were is kept, also in a checkpoint or a saved model,
        and `swap_out_average` brings it back. Call it outside of `tf.function`.
        A step in between raises an error. (Inside XLA and on a GPU, where only
        an op can raise one, the composed implementation does nothing.)

        Raises:
            RuntimeError: If there is no average, the average is in place
                already, the optimizer was not built, or this is in a
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
                    swapped.kept(value, tf_variable(average).dtype),
                    swapped.kept(mean, value.dtype),
                )
            )
            self.assign(variable, mean)
            self.assign(average, value)
        self._swapped = kept
        self._iterations.assign(-1 - self._iterations)

    def swap_out_average(self) -> None:
        """Brings back what `swap_in_average` replaced.

        Where variable and average are of different types, what was in each
        other's place was rounded; after loading a model that was saved with the
        average in place, only that is left.

        Raises:
            RuntimeError: If the average is not in the variables' place.
        """
        if not self.average_is_swapped_in:
            raise RuntimeError(
                "The average is not in the variables' place; call "
                "`swap_in_average()` first."
            )
        pairs = self._averaged()
        kept = self._swapped or [(None, None)] * len(pairs)
        for (variable, average), (value, mean) in zip(pairs, kept, strict=True):
            value = swapped.as_it_was(value, tf.convert_to_tensor(average))
            mean = swapped.as_it_was(mean, tf.convert_to_tensor(variable))
            self.assign(variable, value)
            self.assign(average, mean)
        self._swapped = None
        self._iterations.assign(-1 - self._iterations)

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Within it the variables are the average.

        Example: `with optimizer.averaged_weights(): model.save("best.keras")`.
        """
        self.swap_in_average()
        try:
            yield
        finally:
            self.swap_out_average()

    @property
    def average_is_swapped_in(self) -> bool:
        """Whether the average is in the variables' place."""
        if not tf.executing_eagerly():
            raise RuntimeError(
                "Swapping the average in and out, and asking for it, is for "
                "eager mode: call it outside of `tf.function`."
            )
        return self._has_average() and bool(self._iterations.numpy() < 0)

    def _has_average(self) -> bool:
        return self.use_ema

    def _average_has_begun(self) -> bool:
        """Whether an average isn't still that of no value."""
        return bool(self._iterations.numpy() > 0)

    def _averages_of_variables(self) -> Sequence[keras.Variable | None]:
        return self._model_variables_moving_average

    def _averaged(self) -> list[tuple[Variable, keras.Variable]]:
        return [
            (variable, average)
            for variable, average in zip(
                self._trainable_variables,
                self._averages_of_variables(),
                strict=True,
            )
            if average is not None
        ]

    def finalize_variable_values(self, var_list: Sequence[Variable]) -> None:
        """What Keras calls at the end of `fit`: brings the variables back.

        With `use_ema` it then overwrites them with their averages.

        Args:
            var_list: The model's trainable variables.
        """
        if self.average_is_swapped_in:
            self.swap_out_average()
        super().finalize_variable_values(var_list)

    @property
    def iterations(self) -> Any:
        """How many steps, or with accumulation updates, there have been."""
        if tf.executing_eagerly() and self.average_is_swapped_in:
            steps = -1 - tf.convert_to_tensor(self._iterations)
            return steps // (self.gradient_accumulation_steps or 1)
        return super().iterations

    def _get_current_learning_rate(self) -> Any:
        schedule = self._learning_rate
        if (
            isinstance(
                schedule, keras.optimizers.schedules.LearningRateSchedule
            )
            and tf.executing_eagerly()
            and self.average_is_swapped_in
        ):
            return schedule(-1 - tf.convert_to_tensor(self._iterations))
        return super()._get_current_learning_rate()

    @contextlib.contextmanager
    def _unless_swapped_in(self) -> Iterator[Flag]:
        """Where a step may be done, but not while the average is in place.

        Yields:
            Whether there is to be a step, where nothing can raise an error:
            inside XLA, and on a GPU, from which nothing is to be taken.

        Raises:
            RuntimeError: If it is; in a `tf.function` that is a
                `tf.errors.InvalidArgumentError`.
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
        with tf.control_dependencies(
            [tf.debugging.Assert(may_step, [message])]
        ):
            yield True
