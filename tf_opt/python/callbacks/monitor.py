"""Curves of a training beside its loss."""

from __future__ import annotations

import itertools
import os
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python import keras_internals
from tf_opt.python.functional.arithmetic import slot_dtype
from tf_opt.python.keras_internals import path_of
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.state import patterns, storage
from tf_opt.python.optimizers.values import validation
from tf_opt.python.tensorflow_internals import constant

# `tf.summary.scalar` needs the package tensorboard. This is what it writes.
_SCALAR = tf.compat.v1.SummaryMetadata(
    plugin_data={"plugin_name": "scalars"}, data_class="DATA_CLASS_SCALAR"
)


class Monitor(keras.callbacks.Callback):
    """Shows what the optimizer does, every few batches of `fit`.

    The progress bar, the history that `fit` returns, callbacks that come after
    this one in the list, and on request TensorBoard show these values:

    - `learning_rate`: the learning rate of the next step.
    - `gradient_norm`: the norm of all gradients of the last update, before
      clipping. Requires a tf_opt optimizer.
    - `skipped_steps`: how many steps were skipped because a gradient wasn't
      finite. Requires `skip_nonfinite=True` or `tf_opt.LossScaleOptimizer`.
    - `loss_scale`: the factor of the loss. Requires a `LossScaleOptimizer`.
    - `update_ratio/PATH`: the norm of a variable's change divided by the norm
      of its new value.
    - `unmoved/PATH`: the share of a variable's elements that didn't change.

    The last two are for variables that `variables` selects. They show the first
    update since the batch began; see docs/how-to/monitor.md. Keras'
    `MultiOptimizer` has values for each of its optimizers, in order:
    `gradient_norm_0`, `gradient_norm_1`.

    Cost: when training begins, the callback sets `track_gradient_norm=True` in
    tf_opt's optimizers. A step that measures nothing else then reads each
    gradient once more. A comparison copies the selected variables first.

    Args:
        log_dir: The folder for TensorBoard's files, or None. The package
            `tensorboard` isn't needed to write them.
        every_n_batches: How often values are shown, in batches, beginning with
            the first batch of `fit`.
        variables: A regular expression that is found in the paths of the
            trainable variables to compare; `""` selects all. With `log_dir`
            only TensorBoard shows the comparison. None: no variables.

    Raises:
        ValueError: If `every_n_batches` isn't an integer >= 1 or `variables`
            isn't a regular expression. During `fit`: if no variable is
            selected, or the optimizer of `compile` isn't built by `fit`.

    Example:

    >>> import keras, numpy as np, tf_opt
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> model.compile(tf_opt.Adam(0.1, global_clipnorm=1.0), "mse")
    >>> history = model.fit(
    ...     np.ones((8, 1)), np.ones(8), batch_size=2, verbose=0,
    ...     callbacks=[tf_opt.callbacks.Monitor(variables="kernel")])
    >>> [name.split("/")[0] for name in history.history]
    ['loss', 'learning_rate', 'gradient_norm', 'update_ratio', 'unmoved']
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        *,
        every_n_batches: int = 100,
        variables: str | None = None,
    ) -> None:
        super().__init__()
        validation.check_positive_integer("every_n_batches", every_n_batches)
        if variables is not None:
            patterns.check("variables", [variables], "value")
        self.log_dir = log_dir
        self.every_n_batches = every_n_batches
        self.variables = variables
        self._writer: Any = None
        self._batches_to_wait = 0
        # The first batch of an execution, and whether values are shown then.
        self._first, self._shows = 0, False
        # Whether to compare variables; updates and values before; the result.
        self._compares = False
        self._before: tuple[list[int], dict[str, tf.Tensor]] | None = None
        self._comparison: dict[str, float] = {}

    def on_train_begin(self, logs: Any = None) -> None:
        """Lets optimizers measure gradient norms, and opens the log."""
        self._batches_to_wait, self._before, self._comparison = 0, None, {}
        for optimizer in self._optimizers():
            if isinstance(optimizer, FusedOptimizer) and not (
                optimizer.track_gradient_norm
                or optimizer.global_clipnorm
                or optimizer._overridden()
            ):
                optimizer.track_gradient_norm = True
                # An earlier `fit` may have traced a step without it.
                self.model.make_train_function(force=True)
        if self.log_dir is not None:
            self._writer = tf.summary.create_file_writer(str(self.log_dir))

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Keeps the variables' values, if they are to be compared."""
        self._first, self._shows = batch, self._batches_to_wait <= 0
        if self._shows:
            self._batches_to_wait = self.every_n_batches
            self._compares = self.variables is not None
        # The first step builds the optimizer, if nothing did before.
        if self._compares and self._before is None and self._is_built():
            self._before = self._updates(), self._values()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Shows the values, if it is time."""
        # `batch` skips numbers with `steps_per_execution`.
        self._batches_to_wait -= batch + 1 - self._first
        logs = {} if logs is None else logs
        values = self._numbers() if self._shows else {}
        logs.update(values)
        # Only an update changes variables, not each step.
        if self._before is not None and self._updates() != self._before[0]:
            comparison = _compare(self._before[1], self._values())
            self._before, self._compares = None, False
            values |= comparison
            # They may be too many for a progress bar.
            if self._writer is None:
                self._comparison = comparison
                logs.update(comparison)
        if self._writer is not None and values:
            self._write(values)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Adds the latest values to the history."""
        if logs is not None:
            logs.update(self._numbers() | self._comparison)

    def on_train_end(self, logs: Any = None) -> None:
        """Closes the log."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _optimizers(self) -> list[Any]:
        return keras_internals.unwrapped(getattr(self.model, "optimizer", None))

    def _is_built(self) -> bool:
        return getattr(self.model.optimizer, "built", False)

    def _updates(self) -> list[int]:
        """Returns the number of each optimizer's updates."""
        return [int(_number(x.iterations)) for x in self._optimizers()]

    def _numbers(self) -> dict[str, float]:
        if not self._is_built():
            raise ValueError(
                "Monitor needs a model that `fit` trains with the optimizer "
                "given to `compile`. This one hasn't been used: "
                f"{self.model.optimizer}"
            )
        return _numbers_of(self.model.optimizer)

    def _values(self) -> dict[str, tf.Tensor]:
        """Returns what is compared, by the variable's path."""
        pairs = [
            (optimizer, variable)
            for optimizer in self._optimizers()
            for variable in keras_internals.trainable_variables_of(optimizer)
        ]
        variables = [variable for _, variable in pairs]
        chosen = patterns.values_of(
            "variables", {self.variables: True}, variables, False
        )
        return {
            path_of(variable): _weight_of(optimizer, variable)
            for optimizer, variable in itertools.compress(pairs, chosen)
        }

    def _write(self, values: dict[str, float]) -> None:
        step = int(_number(self.model.optimizer.iterations))
        # Keras' TensorBoard callback restricts which steps are recorded.
        with self._writer.as_default(step), tf.summary.record_if(True):
            for name, value in values.items():
                number = constant(value, tf.float32)
                tf.summary.write(name, number, metadata=_SCALAR)
        self._writer.flush()


def _number(value: Any) -> float:
    # A variable of a strategy is no number.
    return float(tf.convert_to_tensor(value))


def _weight_of(optimizer: Any, variable: keras.Variable) -> tf.Tensor:
    """Returns a variable's value, that of its master weight if it has one."""
    state = getattr(optimizer, "_state", None)
    if state is None or not state.masters:
        return tf.convert_to_tensor(variable)
    return storage.Weight(state, state.index_of(variable), variable).value


def _numbers_of(optimizer: Any) -> dict[str, float]:
    """Returns what a built optimizer knows of its last step, by name."""
    if hasattr(optimizer, "optimizers"):
        return {
            f"{name}_{i}": value
            for i, part in enumerate(optimizer.optimizers)
            for name, value in _numbers_of(part).items()
        }
    if hasattr(optimizer, "inner_optimizer"):
        numbers = _numbers_of(optimizer.inner_optimizer)
        return {**numbers, "loss_scale": _number(optimizer.dynamic_scale)}
    numbers = {"learning_rate": _number(optimizer.learning_rate)}
    if isinstance(optimizer, FusedOptimizer):
        for name in ("gradient_norm", "skipped_steps"):
            if getattr(optimizer._unsaved, name) is not None:
                numbers[name] = _number(getattr(optimizer, name))
    return numbers


def _compare(
    before: dict[str, tf.Tensor], after: dict[str, tf.Tensor]
) -> dict[str, float]:
    """Returns how far values have moved; both arguments are by path."""
    entries = {}
    for path, old in before.items():
        new = after[path]
        unmoved = tf.reduce_mean(tf.cast(tf.equal(old, new), tf.float32))
        # 16 bits have too few digits for a difference or a norm.
        dtype = slot_dtype(old.dtype)
        old, new = tf.cast(old, dtype), tf.cast(new, dtype)
        # Norms of complex numbers are complex.
        change, size = tf.abs(tf.norm(new - old)), tf.abs(tf.norm(new))
        ratio = tf.math.divide_no_nan(change, size)
        entries[f"update_ratio/{path}"] = float(ratio)
        entries[f"unmoved/{path}"] = float(unmoved)
    return entries
