"""Conversion from Keras optimizers to tf_opt's and back, with their state."""

from __future__ import annotations

import contextlib
import copy
import inspect
import itertools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import Unpack

from tf_opt.python import keras_internals
from tf_opt.python.conversion import features
from tf_opt.python.keras_internals import Optimizer
from tf_opt.python.optimizers.base import averages, saving
from tf_opt.python.optimizers.base.arguments import Options
from tf_opt.python.optimizers.base.definition import COUNTERPARTS
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.loss_scale_optimizer import LossScaleOptimizer
from tf_opt.python.optimizers.state.table_modes import RowWise

# What Keras' optimizers don't compute.
_LACKS = (
    "maximize",
    "learning_rate_multipliers",
    "weight_decay_multipliers",
    "skip_nonfinite",
    "master_weights",
    "stochastic_rounding",
)


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
    as docs/differences.md shows. `ScheduleFreeAdamW` differs, too: tf_opt
    computes what Keras' source means, and Keras on TensorFlow another formula.

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

    def counterpart(part: Optimizer) -> FusedOptimizer:
        own: dict[str, Any] = dict(options)
        cls, _ = COUNTERPARTS.get(type(part), (type(part), {}))
        if row_wise is not False and hasattr(cls, "row_wise"):
            own["row_wise"] = row_wise
        if isinstance(part, FusedOptimizer) and not own:
            return part
        return _ours(part, own)

    # A step that is being traced can't read an optimizer's numbers.
    with tf.init_scope():
        if isinstance(optimizer, (str, Mapping)):
            optimizer = _new(optimizer)
        result = _convert(optimizer, counterpart, LossScaleOptimizer)
    if row_wise is not False and not any(
        hasattr(part, "row_wise") for part in keras_internals.unwrapped(result)
    ):
        raise ValueError(
            "`row_wise` must be False unless an Adagrad is converted. "
            f"Received: row_wise={row_wise!r} and {optimizer}"
        )
    return result


def _new(identifier: str | Mapping[str, Any]) -> Optimizer:
    """Returns the Keras optimizer of a name or a configuration."""
    try:
        # Keras changes the configuration.
        return keras.optimizers.get(copy.deepcopy(identifier))
    except Exception as error:  # It may be of any class.
        raise ValueError(
            "`optimizer` must be a Keras optimizer, or what "
            f"`keras.optimizers.get` takes. Received: {identifier!r} ({error})"
        ) from error


def _ours(optimizer: Optimizer, options: dict[str, Any]) -> FusedOptimizer:
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
    config = keras_internals.config_of(optimizer)
    result = cls(**(config | arguments), **options)
    keras_internals.exclude_same_from_weight_decay(optimizer, result)
    return result


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
    return _convert(optimizer, _keras, keras.optimizers.LossScaleOptimizer)


def _keras(optimizer: Optimizer) -> Optimizer:
    """Returns an unbuilt Keras optimizer with the same settings."""
    by_class = {ours: cls for cls, (ours, _) in COUNTERPARTS.items()}
    if type(optimizer) not in by_class:
        if (
            isinstance(optimizer, Optimizer)
            and not isinstance(optimizer, FusedOptimizer)
            and keras_internals.unwrapped(optimizer) == [optimizer]
        ):
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
    fixed = {**arguments, "decoupled_weight_decay": True}
    rate = keras_internals.given_learning_rate_of(optimizer)
    if (
        keras_internals.is_schedule(rate)
        and optimizer.gradient_accumulation_steps
    ):
        fixed["schedule_by"] = "steps"
    features.check(optimizer, "Keras", lacks, fixed)
    optimizer.catch_up()
    config = keras_internals.config_of(optimizer)
    result = cls(**{k: x for k, x in config.items() if k in taken})
    if optimizer.built:
        state = optimizer._state
        averages.begin(optimizer, state)
        excluded = itertools.compress(state.variables, state.excluded)
        result.exclude_from_weight_decay(var_list=list(excluded))
    else:
        keras_internals.exclude_same_from_weight_decay(optimizer, result)
    return result


def _convert(
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
    """

    def part(inner: Optimizer) -> Optimizer:
        return _convert(inner, counterpart, loss_scale_class)

    # Their subclasses may do anything.
    scaling = (keras.optimizers.LossScaleOptimizer, LossScaleOptimizer)
    with _strategy_scope_of(optimizer):
        if type(optimizer) in scaling:
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
    else:
        others = keras_internals.unused_variables_of(optimizer)
    variables = [x for x in variables if id(x) not in others]
    missing = keras_internals.missing_variable_of(optimizer)
    return variables if missing is None else [*variables, missing]


def _strategy_scope_of(optimizer: Optimizer) -> AbstractContextManager:
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
