"""Conversion of tf_opt optimizers to Keras optimizers."""

from __future__ import annotations

import inspect
import itertools

import keras

from tf_opt.python import keras_internals
from tf_opt.python.conversion import features
from tf_opt.python.conversion.keras_wrappers import convert
from tf_opt.python.optimizers.base.definition import COUNTERPARTS
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer

# What Keras' optimizers don't compute.
_LACKS = (
    "maximize",
    "learning_rate_multipliers",
    "weight_decay_multipliers",
    "skip_nonfinite",
    "master_weights",
    "stochastic_rounding",
)


def to_keras(
    optimizer: keras.optimizers.Optimizer,
) -> keras.optimizers.Optimizer:
    """Converts an optimizer to Keras' own and keeps its state.

    Results match to rounding, except for repeated embedding ids; see
    `from_keras`. Options that don't change numbers are dropped, such as
    `state_device` and `implementation`. The rows of tables with
    `lazy_mode="catch_up"` catch up first. A state in `state_dtype` gets the
    type that Keras gives it.

    Args:
        optimizer: A tf_opt optimizer that Keras has, too, such as `AdamW`; or a
            `LossScaleOptimizer` or `MultiOptimizer` around these. Keras
            optimizers inside of it are kept.

    Returns:
        Keras' optimizer with the same hyperparameters and, if `optimizer` is
        built, the same state, variables and `tf.distribute.Strategy`.

    Raises:
        TypeError: If Keras has no such optimizer, or `optimizer` is a subclass,
            which might compute something else.
        ValueError: If the optimizer uses what Keras' lacks, its averages are
            swapped in, or it was built outside of the strategy scope in which
            this function is called.

    Example:

    >>> import keras, tf_opt
    >>> optimizer = tf_opt.AdamW(3e-4, epsilon=1e-7, epsilon_hat=True)
    >>> type(tf_opt.to_keras(optimizer)) is keras.optimizers.AdamW
    True
    """
    return convert(optimizer, _counterpart, keras.optimizers.LossScaleOptimizer)


def _counterpart(
    optimizer: keras.optimizers.Optimizer,
) -> keras.optimizers.Optimizer:
    """Returns an unbuilt Keras optimizer with the same settings."""
    by_class = {ours: cls for cls, (ours, _) in COUNTERPARTS.items()}
    if type(optimizer) not in by_class:
        if _is_kept(optimizer):
            return optimizer
        supported = ", ".join(f"tf_opt.{cls.__name__}" for cls in by_class)
        raise TypeError(
            f"`optimizer` must be one of {supported}, or a LossScaleOptimizer "
            "or keras.optimizers.MultiOptimizer around such; Keras has no "
            f"other. Received: {optimizer} of type {type(optimizer)}"
        )
    cls = by_class[type(optimizer)]
    _, arguments = COUNTERPARTS[cls]
    taken = inspect.signature(cls).parameters
    lacks = (*_LACKS, *(x for x in optimizer._own_arguments if x not in taken))
    fixed = dict(arguments)
    if optimizer.weight_decay is not None:
        fixed["decoupled_weight_decay"] = True
    learning_rate = keras_internals.learning_rate_of(optimizer)
    if (
        keras_internals.is_schedule(learning_rate)
        and optimizer.gradient_accumulation_steps
    ):
        fixed["schedule_by"] = "steps"
    features.check(optimizer, "Keras", lacks, fixed)
    optimizer.catch_up()
    config = {k: x for k, x in optimizer.get_config().items() if k in taken}
    # get_config converts a schedule to a dictionary and loses a callable.
    config["learning_rate"] = learning_rate
    result = cls(**config)
    if optimizer.built:
        state = optimizer._state
        excluded = itertools.compress(state.variables, state.excluded)
        result.exclude_from_weight_decay(var_list=list(excluded))
    else:
        keras_internals.exclude_same_from_weight_decay(optimizer, result)
    return result


def _is_kept(optimizer: object) -> bool:
    """Returns whether this is an optimizer of Keras, and no wrapper."""
    return (
        isinstance(optimizer, keras.optimizers.Optimizer)
        and not isinstance(optimizer, FusedOptimizer)
        and keras_internals.unwrapped(optimizer) == [optimizer]
    )
