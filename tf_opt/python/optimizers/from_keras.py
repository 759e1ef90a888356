"""From a Keras optimizer to the tf_opt one that continues it."""

from __future__ import annotations

from typing import Any

import keras

from tf_opt.python.optimizers.adam import Adam
from tf_opt.python.optimizers.adamw import AdamW
from tf_opt.python.optimizers.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.nadam import NAdam

# For each Keras class, ours and the arguments that give Keras' numbers.
_COUNTERPARTS: dict[type, tuple[type[FusedOptimizer], dict[str, Any]]] = {
    keras.optimizers.Adam: (Adam, {"epsilon_hat": True}),
    keras.optimizers.AdamW: (AdamW, {"epsilon_hat": True}),
    keras.optimizers.Nadam: (NAdam, {"momentum_decay": 1.0}),
}


def from_keras(optimizer: keras.optimizers.Optimizer) -> FusedOptimizer:
    """Returns the tf_opt optimizer that continues with the same numbers.

    Args:
        optimizer: A Keras `Adam`, `AdamW` or `Nadam`. If it has been built,
            its state is copied and the result updates the same variables.

    Returns:
        A `tf_opt.Adam`, `tf_opt.AdamW` or `tf_opt.NAdam` with its
        hyper-parameters, in Keras' conventions, and its state.

    Raises:
        TypeError: If `optimizer` is of another class, a subclass included: it
            might compute something else.

    Example:

    >>> import keras, tf_opt
    >>> optimizer = tf_opt.from_keras(keras.optimizers.AdamW(3e-4))
    >>> optimizer.weight_decay, optimizer.epsilon, optimizer.epsilon_hat
    (0.004, 1e-07, True)
    """
    if type(optimizer) not in _COUNTERPARTS:
        supported = ", ".join(
            f"keras.optimizers.{cls.__name__}" for cls in _COUNTERPARTS
        )
        raise TypeError(
            f"`optimizer` must be one of {supported}. Received: {optimizer} "
            f"of type {type(optimizer)}"
        )
    cls, arguments = _COUNTERPARTS[type(optimizer)]
    config = optimizer.get_config()
    # get_config turns a schedule into a dictionary and loses a callable.
    learning_rate = optimizer._learning_rate
    if isinstance(learning_rate, keras.Variable):
        learning_rate = float(learning_rate.numpy())
    config["learning_rate"] = learning_rate
    result = cls(**config, **arguments)

    _copy_exclusions(optimizer, result)
    if optimizer.built:
        result.build(optimizer._trainable_variables)
        for target, source in zip(
            result.variables, optimizer.variables, strict=True
        ):
            target.assign(source)
    return result


def _copy_exclusions(
    source: keras.optimizers.Optimizer, target: FusedOptimizer
) -> None:
    """Copies what `exclude_from_weight_decay` said; no config has it."""
    keys = getattr(source, "_exclude_from_weight_decay", set())
    pattern = getattr(source, "_exclude_from_weight_decay_pattern", None)
    known = getattr(source, "_trainable_variables", [])
    target.exclude_from_weight_decay(
        var_list=[v for v in known if source._var_key(v) in keys],
        var_names=[pattern.pattern] if pattern else None,
    )
    # Before Keras' optimizer is built it knows the variables by key only.
    target._exclude_from_weight_decay = set(keys)
