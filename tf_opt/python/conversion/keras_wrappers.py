"""Converts optimizers inside of Keras' wrappers, with their state."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import keras
import tensorflow as tf

from tf_opt.python import keras_internals
from tf_opt.python.optimizers.base import saving
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.loss_scale_optimizer import LossScaleOptimizer

Optimizer = keras.optimizers.Optimizer


def convert(
    optimizer: Optimizer,
    counterpart: Callable[[Optimizer], Optimizer],
    loss_scale_class: type[keras.optimizers.LossScaleOptimizer],
) -> Optimizer:
    """Returns an optimizer of the other library with the same state.

    Args:
        optimizer: An optimizer, or a wrapper around some.
        counterpart: Returns an optimizer's counterpart, which isn't built, or
            the optimizer itself if it is one already.
        loss_scale_class: The class of the result if it is such a wrapper.

    Raises:
        ValueError: If the optimizer was built outside of the strategy scope in
            which this function is called, or lacks state that its arguments
            ask for.
    """

    def part(inner: Optimizer) -> Optimizer:
        return convert(inner, counterpart, loss_scale_class)

    with _strategy_scope_of(optimizer):
        # Their subclasses may do anything.
        if type(optimizer) in (
            keras.optimizers.LossScaleOptimizer,
            LossScaleOptimizer,
        ):
            result = loss_scale_class(
                part(optimizer.inner_optimizer),
                initial_scale=optimizer.initial_scale,
                dynamic_growth_steps=optimizer.dynamic_growth_steps,
                name=optimizer.name,
            )
        elif type(optimizer) is keras_internals.MultiOptimizer:
            result = _with_parts(optimizer, part)
        else:
            result = counterpart(optimizer)
        if result is not optimizer and optimizer.built:
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
                value = source.numpy()
                if len(target.shape) < len(source.shape):
                    # Row-wise state has one number for each row.
                    columns = tuple(range(1, value.ndim))
                    value = value.astype("float64").mean(axis=columns)
                target.assign(keras.ops.cast(value, target.dtype))
    return result


def _with_parts(
    optimizer: Optimizer, convert_part: Callable[[Optimizer], Optimizer]
) -> Optimizer:
    """Returns a `MultiOptimizer` that isn't built, around converted ones."""
    parts = {id(part): convert_part(part) for part in optimizer.optimizers}
    choice = keras_internals.optimizer_map_of(optimizer)
    if isinstance(choice, keras.optimizers.OptimizerMap):
        converted = keras.optimizers.OptimizerMap(
            parts[id(choice.default_optimizer)],
            {pattern: parts[id(part)] for pattern, part in choice.items()},
        )
    elif optimizer.built:

        def converted(variable: keras.Variable) -> Optimizer:
            return parts[id(keras_internals.part_of(optimizer, variable))]

    else:
        raise TypeError(
            "`optimizer` must have been built, or have a "
            "keras.optimizers.OptimizerMap, to find the optimizers inside "
            f"of it. Received: {optimizer}"
        )
    return keras_internals.MultiOptimizer(
        converted,
        loss_scale_factor=optimizer.loss_scale_factor,
        name=optimizer.name,
    )


def _own_variables(optimizer: Optimizer) -> list[keras.Variable]:
    """Returns an optimizer's variables that both libraries have.

    Those of optimizers inside of it aren't among them.
    """
    variables = optimizer.variables
    inner = [getattr(optimizer, "inner_optimizer", None)]
    inner = getattr(optimizer, "optimizers", inner)
    if inner != [None]:
        of_inner = sum(len(each.variables) for each in inner)
        return variables[: len(variables) - of_inner]
    if isinstance(optimizer, FusedOptimizer):
        others = saving.separate_keys(optimizer._state)
        variables = [x for x in variables if id(x) not in others]
    missing = keras_internals.missing_variable_of(optimizer)
    return variables if missing is None else [*variables, missing]


def _strategy_scope_of(
    optimizer: Optimizer,
) -> contextlib.AbstractContextManager:
    """Returns the scope in which to create the result's variables."""
    if not isinstance(optimizer, Optimizer):
        return contextlib.nullcontext()
    own = keras_internals.strategy_of(optimizer)
    current = tf.distribute.get_strategy()
    if own is current or (tf.distribute.has_strategy() and not optimizer.built):
        return contextlib.nullcontext()
    if tf.distribute.has_strategy():
        raise ValueError(
            "`optimizer` was built under another tf.distribute strategy, but "
            "is converted in the scope of a strategy; call it outside of that "
            f"scope. Received: {own} and {current}"
        )
    return own.scope()
