"""Conversion of Keras optimizers to tf_opt optimizers."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import Unpack

from tf_opt.python import keras_internals
from tf_opt.python.conversion.keras_wrappers import convert
from tf_opt.python.optimizers.base.arguments import Options
from tf_opt.python.optimizers.base.definition import COUNTERPARTS
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.loss_scale_optimizer import LossScaleOptimizer
from tf_opt.python.optimizers.state.table_modes import RowWise


# Overloads can't tell Keras' classes apart: pyright doesn't know what
# they inherit from TensorFlow, so to it any of them may be any other.
def from_keras(
    optimizer: keras.optimizers.Optimizer | str | Mapping[str, Any],
    *,
    row_wise: RowWise = False,
    **options: Unpack[Options],
) -> FusedOptimizer | LossScaleOptimizer | keras.optimizers.MultiOptimizer:
    r"""Converts a Keras optimizer and keeps its state.

    Results match to rounding, except for ids that repeat in the sparse gradient
    of an embedding: tf_opt adds their gradients up and squares the sum, as for
    a dense gradient; Keras adds up the squares, and clips before. So an
    embedding may learn more slowly here at first. If it does, raise its rate,
    as docs/differences.md shows.

    Args:
        optimizer: A Keras optimizer that tf_opt has, too, such as `AdamW`
            (docs/migrate.md lists them); or a Keras `LossScaleOptimizer`
            (the class of `model.optimizer` under the policy `mixed_float16`) or
            `MultiOptimizer` around these. tf_opt optimizers inside of it are
            kept, and exclude `options`. Or what `keras.optimizers.get` takes:
            a name, such as `"adam"`, or a configuration.
        row_wise: As in `tf_opt.Adagrad`, for each Adagrad: accumulators by row
            begin with the means of the rows' accumulators.
        **options: Options of tf_opt, such as `lazy_mode` or `master_weights`,
            for each optimizer that is converted.

    Returns:
        tf_opt's optimizer with the same hyperparameters, in Keras' conventions.
        If `optimizer` is built, it has the same state and updates the same
        variables, in the same `tf.distribute.Strategy`. A `LossScaleOptimizer`
        becomes a `tf_opt.LossScaleOptimizer`, a `MultiOptimizer` another one.

    Raises:
        TypeError: If `optimizer` has another class, such as a subclass, which
            might compute something else, or an option is unknown.
        ValueError: If Keras doesn't know such a name or configuration, the
            optimizer was built outside of the strategy scope in which this
            function is called, or it lacks state that its arguments ask for; or
            if an option has a wrong value, or `row_wise` is for no Adagrad.

    Example:

    >>> import keras, tf_opt
    >>> optimizer = tf_opt.from_keras(keras.optimizers.AdamW(3e-4))
    >>> optimizer.weight_decay, optimizer.epsilon, optimizer.epsilon_hat
    (0.004, 1e-07, True)
    """

    def counterpart(part: keras.optimizers.Optimizer) -> FusedOptimizer:
        own: dict[str, Any] = dict(options)
        cls, _ = COUNTERPARTS.get(type(part), (type(part), {}))
        if row_wise is not False and hasattr(cls, "row_wise"):
            own["row_wise"] = row_wise
        if isinstance(part, FusedOptimizer) and not own:
            return part
        return _counterpart(part, own)

    # A step that is being traced can't read an optimizer's numbers.
    with tf.init_scope():
        if isinstance(optimizer, (str, Mapping)):
            optimizer = _new(optimizer)
        result = convert(optimizer, counterpart, LossScaleOptimizer)
    if row_wise is not False and not any(
        hasattr(part, "row_wise") for part in keras_internals.unwrapped(result)
    ):
        raise ValueError(
            "`row_wise` must be False unless an Adagrad is converted. "
            f"Received: row_wise={row_wise!r} and {optimizer}"
        )
    return result


def _new(identifier: str | Mapping[str, Any]) -> keras.optimizers.Optimizer:
    """Returns the Keras optimizer of a name or a configuration."""
    try:
        # Keras changes the configuration.
        return keras.optimizers.get(copy.deepcopy(identifier))
    except Exception as error:  # It may be of any class.
        raise ValueError(
            "`optimizer` must be a Keras optimizer, or what "
            f"`keras.optimizers.get` takes. Received: {identifier!r} ({error})"
        ) from error


def _counterpart(
    optimizer: keras.optimizers.Optimizer, options: dict[str, Any]
) -> FusedOptimizer:
    """Returns an unbuilt tf_opt optimizer with the same settings."""
    if type(optimizer) not in COUNTERPARTS:
        supported = ", ".join(
            f"keras.optimizers.{cls.__name__}" for cls in COUNTERPARTS
        )
        raise TypeError(
            f"`optimizer` must be one of {supported}, or a "
            "keras.optimizers.LossScaleOptimizer or "
            "keras.optimizers.MultiOptimizer around such. Received: "
            f"{optimizer} of type {type(optimizer)}"
        )
    cls, arguments = COUNTERPARTS[type(optimizer)]
    config = optimizer.get_config()
    # get_config converts a schedule to a dictionary and loses a callable.
    config["learning_rate"] = keras_internals.learning_rate_of(optimizer)
    result = cls(**config, **arguments, **options)
    keras_internals.exclude_same_from_weight_decay(optimizer, result)
    return result
