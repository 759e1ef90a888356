"""Embedding rows that are up to date wherever `fit` reads them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python import keras_internals
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.state.table_modes import CATCH_UP
from tf_opt.python.optimizers.values import validation

# `optimizers`: those of the training step that this thread runs or traces.
_step = threading.local()


class CatchUp(keras.callbacks.Callback):
    """Lets rows of embedding tables catch up before they are read.

    With `lazy_mode="catch_up"`, a row that waits makes up for the steps that it
    missed when it is updated next. With this callback it does so before it is
    read, too, so that training is exact training, up to rounding:

    - In a training step, `keras.layers.Embedding` lets the rows of the batch
      catch up, in subclasses that call it, too. This stays so when the model is
      trained again without the callback.
    - Before `model.evaluate`, validation and `model.predict`, and at the end of
      each epoch, all rows catch up; on request every few batches, too.

    Put it first in the list: callbacks that read weights come after it, such as
    `ModelCheckpoint`. Tables that are read in another way need a call of
    `optimizer.catch_up(table, ids)` in `train_step`. The optimizer may be
    inside a `LossScaleOptimizer` or Keras' `MultiOptimizer`, and any attribute
    of the model, or in a list or dictionary that is one.

    Args:
        every_n_batches: How often all rows catch up during an epoch, in
            batches. None: only at its end. It costs one pass over the tables
            each time.

    Raises:
        ValueError: If `every_n_batches` isn't an integer >= 1 or None.

    Example:

    >>> import keras, numpy as np, tf_opt
    >>> model = keras.Sequential([keras.layers.Embedding(10, 1)])
    >>> model.compile(tf_opt.Adam(0.1, lazy_mode="catch_up"), "mse")
    >>> ids, targets = np.arange(8)[:, None], np.ones((8, 1, 1))
    >>> history = model.fit(
    ...     ids, targets, validation_data=(ids, targets), verbose=0,
    ...     callbacks=[tf_opt.callbacks.CatchUp()])
    >>> sorted(history.history)
    ['loss', 'val_loss']
    """

    # The layer that reads tables.
    _embedding_class: type = keras.layers.Embedding

    def __init__(self, every_n_batches: int | None = None) -> None:
        super().__init__()
        if every_n_batches is not None:
            validation.check_positive_integer(
                "every_n_batches", every_n_batches
            )
        self.every_n_batches = every_n_batches
        self._batches = 0

    def _catch_up(self) -> None:
        for optimizer in _optimizers_of(self.model):
            optimizer._bring_up_to_date()

    def on_train_begin(self, logs: Any = None) -> None:
        """Makes training steps let rows catch up before they read them."""
        _install(self.model)
        _install_in_layers(self._embedding_class)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Lets all rows catch up every `every_n_batches` batches."""
        if self.every_n_batches is None:
            return
        # `batch` skips numbers with `steps_per_execution`.
        passed = batch + 1 - self._batches
        if passed >= self.every_n_batches:
            self._catch_up()
            self._batches = batch + 1

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begins to count batches."""
        self._batches = 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Lets all rows catch up."""
        self._catch_up()

    def on_test_begin(self, logs: Any = None) -> None:
        """Lets all rows catch up."""
        self._catch_up()

    on_predict_begin = on_test_begin


def _optimizers_of(model: keras.Model) -> list[FusedOptimizer]:
    """Returns a model's optimizers whose tables may have rows that wait.

    They may be any attributes of the model, in lists and dictionaries, too, and
    inside of wrappers.
    """
    return [
        optimizer
        for attribute in vars(model).values()
        for element in _elements_of(attribute)
        if isinstance(element, keras.optimizers.Optimizer)
        or hasattr(element, "inner_optimizer")
        for optimizer in keras_internals.unwrapped(element)
        if isinstance(optimizer, FusedOptimizer)
        and CATCH_UP in _elements_of(optimizer.lazy_mode)
    ]


def _elements_of(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, (list, tuple)) else [value]


def _install(model: keras.Model) -> None:
    """Makes `model.train_step` let rows catch up before layers read them."""
    train_step = model.train_step
    if hasattr(train_step, "reads_up_to_date"):
        return

    @functools.wraps(train_step)
    def up_to_date(*arguments: Any, **options: Any) -> Any:
        before = getattr(_step, "optimizers", [])
        _step.optimizers = [*before, *_optimizers_of(model)]
        try:
            # TensorFlow traces it once more if it creates the optimizer's
            # state, before which nothing is known to catch up.
            return train_step(*arguments, **options)
        finally:
            _step.optimizers = before

    up_to_date.reads_up_to_date = True
    model.train_step = up_to_date
    # An earlier `fit` may have traced the method.
    model.make_train_function(force=True)


def _install_in_layers(embedding_class: Any) -> None:
    """Makes Keras' `Embedding.call` let rows catch up in these steps.

    It is the class's method, because subclasses may compute the ids that they
    pass on to it. Outside of such a step it does what it did before.
    """
    call = embedding_class.call
    if hasattr(call, "reads_up_to_date"):
        return

    @functools.wraps(call)
    def up_to_date(layer: Any, inputs: Any) -> Any:
        for optimizer in getattr(_step, "optimizers", ()):
            known = keras_internals.trainable_variables_of(optimizer)
            for table, rows in _rows_read(layer.embeddings, inputs):
                # It isn't if the layer computes it (LoRA), or if it is frozen.
                if not known or any(table is variable for variable in known):
                    optimizer.catch_up(table, rows)
        return call(layer, inputs)

    up_to_date.reads_up_to_date = True
    embedding_class.call = up_to_date


def _rows_read(table: Any, inputs: Any) -> Iterator[tuple[Any, tf.Tensor]]:
    """Yields a table, or each part of a split one, and the rows read there."""
    if inputs.dtype not in (tf.int32, tf.int64):
        inputs = tf.cast(inputs, tf.int32)
    if isinstance(inputs, tf.SparseTensor):
        # It reads the first row where there is no value.
        inputs = tf.concat([inputs.values, tf.zeros([1], inputs.dtype)], 0)
    elif isinstance(inputs, tf.RaggedTensor):
        inputs = inputs.flat_values
    rows = tf.where(inputs < 0, inputs + table.shape[0], inputs)
    parts = getattr(table, "variables", None)
    if parts is None:
        yield table, rows
        return
    for part in parts:
        # Keras 2 splits a table's rows over parameter servers, in this order.
        size = part.shape[0]
        yield part, tf.boolean_mask(rows, (rows >= 0) & (rows < size))
        rows -= size
