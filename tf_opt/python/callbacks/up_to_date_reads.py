"""Training steps whose embedding layers read rows that are up to date."""

from __future__ import annotations

import functools
import threading
from typing import Any

import keras
import tensorflow as tf

from tf_opt.python import keras_internals
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.state.lazy_mode import CATCH_UP

# `optimizers`: those of the training step that this thread runs or traces.
_step = threading.local()


def optimizers_of(model: keras.Model) -> list[FusedOptimizer]:
    """Returns a model's optimizers whose tables may have rows that wait.

    They may be inside of wrappers.
    """
    # A model that isn't compiled has none.
    own = getattr(model, "optimizer", None)
    return [
        optimizer
        for optimizer in keras_internals.unwrapped(own)
        if isinstance(optimizer, FusedOptimizer)
        and _may_catch_up(optimizer.lazy_mode)
    ]


def _may_catch_up(lazy_mode: Any) -> bool:
    modes = lazy_mode.values() if isinstance(lazy_mode, dict) else [lazy_mode]
    return CATCH_UP in modes


def install(model: keras.Model) -> None:
    """Makes `model.train_step` let rows catch up before layers read them.

    From then on, the model's `Embedding` layers let the rows that they look up
    catch up first, if their tables do that. Outside of `train_step` they don't.
    """
    train_step = model.train_step
    if hasattr(train_step, "reads_up_to_date") or not optimizers_of(model):
        return

    @functools.wraps(train_step)
    def up_to_date(*arguments: Any, **options: Any) -> Any:
        for layer in keras_internals.layers_of(model):
            if isinstance(layer, keras.layers.Embedding):
                _install_in_layer(layer)
        before = getattr(_step, "optimizers", ())
        _step.optimizers = optimizers_of(model)
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


def _install_in_layer(layer: keras.layers.Embedding) -> None:
    call = layer.call
    if hasattr(call, "reads_up_to_date"):
        return

    @functools.wraps(call)
    def up_to_date(inputs: Any, *arguments: Any, **options: Any) -> Any:
        for optimizer in getattr(_step, "optimizers", ()):
            _catch_up(optimizer, layer, inputs)
        return call(inputs, *arguments, **options)

    up_to_date.reads_up_to_date = True
    layer.call = up_to_date


def _catch_up(
    optimizer: FusedOptimizer, layer: keras.layers.Embedding, inputs: Any
) -> None:
    table = layer.embeddings
    # It isn't if the layer computes it (LoRA), or if it is frozen.
    known = keras_internals.trainable_variables_of(optimizer)
    if not any(table is variable for variable in known):
        return
    if not inputs.dtype.is_integer:
        # Keras' layer casts them to integers. A class of somebody else may take
        # something else here.
        if type(layer) is not keras.layers.Embedding:
            return
        inputs = tf.cast(inputs, tf.int32)
    optimizer.catch_up(table, inputs)
