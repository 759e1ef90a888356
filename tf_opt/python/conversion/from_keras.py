"""Conversion of Keras optimizers to tf_opt optimizers."""

from __future__ import annotations

import contextlib

import keras
import tensorflow as tf

from tf_opt.python import keras_internals
from tf_opt.python.optimizers.base.definition import COUNTERPARTS
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.loss_scale_optimizer import LossScaleOptimizer


def from_keras(
    optimizer: keras.optimizers.Optimizer,
) -> keras.optimizers.Optimizer:
    """Converts a Keras optimizer and keeps its state.

    Results match to rounding, except for repeated embedding ids, which Keras
    treats differently.

    Args:
        optimizer: A Keras optimizer that tf_opt has, too, such as `AdamW`
            (docs/coming-from.md lists them); or a Keras `LossScaleOptimizer`
            (the class of `model.optimizer` under the policy `mixed_float16`) or
            `MultiOptimizer` around these. tf_opt optimizers inside of it are
            kept. If the optimizer is built, the result gets its state and
            updates the same variables. If it belongs to a
            `tf.distribute.Strategy`, so does the result.

    Returns:
        tf_opt's optimizer with the same hyperparameters, in Keras'
        conventions, and the same state. A
        `LossScaleOptimizer` becomes a `tf_opt.LossScaleOptimizer` around it
        with the same scale, a `MultiOptimizer` another `MultiOptimizer`.

    Raises:
        TypeError: If `optimizer` has another class, such as a subclass, which
            might compute something else.
        ValueError: If it was built outside of the strategy scope in which this
            function is called, or lacks state that its arguments ask for.

    Example:

    >>> import keras, tf_opt
    >>> optimizer = tf_opt.from_keras(keras.optimizers.AdamW(3e-4))
    >>> optimizer.weight_decay, optimizer.epsilon, optimizer.epsilon_hat
    (0.004, 1e-07, True)
    """
    with _strategy_of(optimizer):
        if type(optimizer) is keras.optimizers.LossScaleOptimizer:
            result = LossScaleOptimizer(
                _continued(optimizer.inner_optimizer),
                initial_scale=optimizer.initial_scale,
                dynamic_growth_steps=optimizer.dynamic_growth_steps,
                name=optimizer.name,
            )
        elif type(optimizer) is keras_internals.MultiOptimizer:
            result = _with_continued_parts(optimizer)
        else:
            result = _counterpart(optimizer)
        if optimizer.built:
            result.build(keras_internals.trainable_variables_of(optimizer))
            targets, sources = map(_own_variables, (result, optimizer))
            if len(targets) != len(sources):
                raise ValueError(
                    "`optimizer` must have the state that its arguments ask "
                    "for; one of them (such as `momentum`) was changed after "
                    f"`build`. Received: {optimizer} with {len(sources)} "
                    f"variables, expected {len(targets)}"
                )
            for target, source in zip(targets, sources, strict=True):
                target.assign(source)
    return result


def _continued(
    optimizer: keras.optimizers.Optimizer,
) -> keras.optimizers.Optimizer:
    """Converts an inner optimizer, unless it is tf_opt's."""
    if isinstance(optimizer, FusedOptimizer):
        return optimizer
    return from_keras(optimizer)


def _with_continued_parts(
    optimizer: keras.optimizers.Optimizer,
) -> keras.optimizers.Optimizer:
    """Returns an unbuilt `MultiOptimizer` with converted inner optimizers."""
    parts = {id(part): _continued(part) for part in optimizer.optimizers}
    choice = keras_internals.optimizer_map_of(optimizer)
    if isinstance(choice, keras.optimizers.OptimizerMap):
        continued = keras.optimizers.OptimizerMap(
            parts[id(choice.default_optimizer)],
            {pattern: parts[id(part)] for pattern, part in choice.items()},
        )
    elif optimizer.built:

        def continued(variable: keras.Variable) -> keras.optimizers.Optimizer:
            return parts[id(keras_internals.part_of(optimizer, variable))]

    else:
        raise TypeError(
            "`optimizer` must have been built, or have a "
            "keras.optimizers.OptimizerMap, to find the optimizers inside "
            f"of it. Received: {optimizer}"
        )
    return keras_internals.MultiOptimizer(
        continued,
        loss_scale_factor=optimizer.loss_scale_factor,
        name=optimizer.name,
    )


def _own_variables(
    optimizer: keras.optimizers.Optimizer,
) -> list[keras.Variable]:
    """Returns an optimizer's variables, without those of inner optimizers."""
    variables = optimizer.variables
    inner = [getattr(optimizer, "inner_optimizer", None)]
    inner = getattr(optimizer, "optimizers", inner)
    if inner != [None]:
        of_inner = sum(len(each.variables) for each in inner)
        return variables[: len(variables) - of_inner]
    missing = keras_internals.missing_variable_of(optimizer)
    return variables if missing is None else [*variables, missing]


def _strategy_of(
    optimizer: keras.optimizers.Optimizer,
) -> contextlib.AbstractContextManager:
    """Returns the scope in which to create the result's variables."""
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        return contextlib.nullcontext()
    own = keras_internals.strategy_of(optimizer)
    current = tf.distribute.get_strategy()
    if own is current or (tf.distribute.has_strategy() and not optimizer.built):
        return contextlib.nullcontext()
    if tf.distribute.has_strategy():
        raise ValueError(
            "`optimizer` was built under another tf.distribute strategy, but "
            "from_keras is called in the scope of a strategy; call it outside "
            f"of that scope. Received: {own} and {current}"
        )
    return own.scope()


def _counterpart(optimizer: keras.optimizers.Optimizer) -> FusedOptimizer:
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
    result = cls(**config, **arguments)
    keras_internals.exclude_same_from_weight_decay(optimizer, result)
    return result
