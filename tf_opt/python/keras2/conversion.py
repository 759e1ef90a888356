"""Conversion from the optimizers of tf_keras and back."""

from __future__ import annotations

import inspect
import re
from typing import Any

import keras
import tensorflow as tf
import tf_keras
from typing_extensions import Unpack

from tf_opt.python import keras_internals
from tf_opt.python.conversion.keras_optimizers import from_keras, to_keras
from tf_opt.python.keras2.adapter import Adapter, Schedule, adapted
from tf_opt.python.optimizers.base.arguments import Options

_LEGACY = tf_keras.optimizers.legacy


def from_tf_keras(
    optimizer: tf_keras.optimizers.Optimizer, **options: Unpack[Options]
) -> Adapter:
    r"""Converts an optimizer of tf_keras and keeps its state.

    Results match as with `tf_opt.from_keras`. A legacy optimizer that updates
    only the rows of a table that occur becomes a lazy one.

    Args:
        optimizer: An optimizer of `tf_keras.optimizers` that tf_opt has, too,
            such as `AdamW`. Or one of `tf_keras.optimizers.legacy` that hasn't
            trained yet.
        **options: Options of tf_opt, such as `lazy_mode`.

    Returns:
        The optimizer of tf_opt.keras2 with the same hyperparameters. If
        `optimizer` is built, it takes the present state over when it is built:
        for the same variables in the same order.

    Raises:
        TypeError: If `optimizer` has another class, such as a subclass, which
            might compute something else, or an option is unknown.
        ValueError: If a legacy optimizer has trained or has both a schedule and
            `decay`, or an option has a wrong value.

    Example:

    >>> import tf_keras, tf_opt.keras2 as tfo
    >>> optimizer = tfo.from_tf_keras(tf_keras.optimizers.AdamW(3e-4))
    >>> optimizer.weight_decay, optimizer.epsilon, optimizer.epsilon_hat
    (0.004, 1e-07, True)
    """
    name = type(optimizer).__name__
    homes = (tf_keras.optimizers, _LEGACY)
    if not any(type(optimizer) is getattr(x, name, None) for x in homes):
        raise TypeError(
            "`optimizer` must be an optimizer of tf_keras, and no subclass. "
            f"Received: {optimizer} of type {type(optimizer)}"
        )
    is_legacy = isinstance(optimizer, _LEGACY.Optimizer)
    config, rate = _config_and_rate_of(optimizer)
    own: dict[str, Any] = {}
    if is_legacy:
        own = _arguments_of_legacy(optimizer, config)
        rate = _rate_of_legacy(rate, config.pop("decay", 0))
        options = {"lazy_mode": own.pop("lazy_mode", False), **options}
    keras_class = getattr(keras.optimizers, name)
    taken = inspect.signature(keras_class).parameters
    theirs = keras_class(**{k: x for k, x in config.items() if k in taken})
    if names := getattr(optimizer, "_exclude_from_weight_decay_names", None):
        theirs.exclude_from_weight_decay(var_names=names)
    inner = from_keras(theirs, **options)
    own["learning_rate"] = rate
    result = adapted(type(inner))(**(keras_internals.config_of(inner) | own))
    keys = getattr(optimizer, "_exclude_from_weight_decay", ())
    result._exclude_from_weight_decay = list(keys)
    if not is_legacy and getattr(optimizer, "_built", False):
        result._taken.extend(x.numpy() for x in _read_variables_of(optimizer))
    return result


def _config_and_rate_of(optimizer: Any) -> tuple[dict[str, Any], Any]:
    """Returns an optimizer's configuration, and its learning rate as it is.

    `get_config` serializes a schedule, which not all of them can be.
    """
    if isinstance(optimizer, _LEGACY.Optimizer):
        rate = optimizer._hyper["learning_rate"]
        view = object.__new__(type(optimizer))
        hyper = {**optimizer._hyper, "learning_rate": 0.0}
        vars(view).update(vars(optimizer), _hyper=hyper)
        config = view.get_config()
        del config["learning_rate"]
    else:
        config = keras_internals.config_of(optimizer)
        rate = config.pop("learning_rate")
    if hasattr(rate, "numpy"):  # Under a strategy it has no `float()`.
        rate = rate.numpy()
    return config, rate if callable(rate) else float(rate)


def _arguments_of_legacy(
    optimizer: Any, config: dict[str, Any]
) -> dict[str, Any]:
    """Returns arguments for a legacy optimizer's numbers.

    Raises:
        ValueError: If it has state.
    """
    if steps := int(optimizer.iterations.numpy()):
        raise ValueError(
            "A legacy optimizer's state can't be converted. Convert one that "
            "hasn't trained: `from_tf_keras(type(optimizer).from_config("
            f"optimizer.get_config()))`. Received: {optimizer} after {steps} "
            "steps"
        )
    name = type(optimizer).__name__
    if name == "Nadam":
        return {"momentum_decay": config.pop("decay")}
    if name == "RMSprop" and not optimizer._momentum:
        return {"torch_epsilon": True}
    # These update only the rows of a table that occur.
    has_momentum = getattr(optimizer, "_momentum", False)
    return {"lazy_mode": has_momentum or name in ("Adamax", "Ftrl")}


def _rate_of_legacy(rate: Any, decay: float) -> Any:
    """Returns the learning rate of a legacy optimizer, with its `decay`."""
    if not decay:
        return rate
    if isinstance(rate, Schedule):
        raise ValueError(
            "`decay` of a legacy optimizer must be 0 with a schedule. "
            f"Received: decay={decay} and {rate}"
        )
    return tf_keras.optimizers.schedules.InverseTimeDecay(rate, 1, decay)


def to_tf_keras(optimizer: Adapter) -> tf_keras.optimizers.Optimizer:
    """Converts an optimizer to one of tf_keras and keeps its state.

    Args:
        optimizer: An optimizer of tf_opt.keras2 that tf_keras has, too.

    Returns:
        The optimizer of tf_keras with the same hyperparameters and, if
        `optimizer` is built, the same state.

    Raises:
        TypeError: If tf_keras has no such optimizer.
        ValueError: If the optimizer uses what tf_keras' lacks.

    Example:

    >>> import tf_keras, tf_opt.keras2 as tfo
    >>> optimizer = tfo.from_tf_keras(tf_keras.optimizers.AdamW(3e-4))
    >>> type(tfo.to_tf_keras(optimizer)) is tf_keras.optimizers.AdamW
    True
    """
    if not isinstance(optimizer, Adapter):
        raise TypeError(
            "`optimizer` must be an optimizer of tf_opt.keras2. Received: "
            f"{optimizer} of type {type(optimizer)}"
        )
    inner = optimizer.inner_optimizer
    config = keras_internals.config_of(inner)
    # It checks what Keras lacks.
    theirs = to_keras(type(inner).from_config(config | {"learning_rate": 0.0}))
    cls = getattr(tf_keras.optimizers, type(theirs).__name__, None)
    if cls is None:
        raise TypeError(
            f"tf_keras has no such optimizer. Received: {optimizer}"
        )
    config = keras_internals.config_of(theirs)
    config["learning_rate"] = optimizer._given_rate
    taken = inspect.signature(cls).parameters
    for name, value in config.items():
        if name not in taken and value is not None:
            raise ValueError(
                f"`{name}` must be None for conversion to tf_keras. Received: "
                f"{name}={value!r}"
            )
    result = cls(**{k: x for k, x in config.items() if k in taken})
    excluded = inner._choices.chosen["excluded"]
    paths = [f"^{re.escape(path)}$" for path in excluded.paths]
    result.exclude_from_weight_decay(var_names=[*excluded.var_names, *paths])
    if inner.built:
        inner.catch_up()
        result.build(inner._trainable_variables)
        pairs = zip(
            _read_variables_of(result),
            _read_variables_of(optimizer),
            strict=False,
        )
        for target, source in pairs:
            target.assign(tf.cast(source, target.dtype))
    return result


def _read_variables_of(optimizer: tf_keras.optimizers.Optimizer) -> list[Any]:
    """Returns the variables that a step reads.

    tf_keras' Adafactor computes the second moment of a matrix in each step.
    """
    unread = set()
    if type(optimizer) is tf_keras.optimizers.Adafactor:
        pairs = zip(optimizer._r, optimizer._v, strict=True)
        unread = {id(v) for r, v in pairs if r.shape.rank}
    variables = [x for x in optimizer.variables if id(x) not in unread]
    product = getattr(optimizer, "_u_product", None)
    if product is not None and not isinstance(optimizer, Adapter):
        variables.append(product)
    return variables
