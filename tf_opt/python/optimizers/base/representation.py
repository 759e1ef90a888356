"""Text of an optimizer: the call that creates one like it."""

from __future__ import annotations

import inspect
import numbers
import re
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_opt.python.keras_internals import Optimizer, given_learning_rate_of
from tf_opt.python.optimizers.base.arguments import SavedChoices


def of_optimizer(optimizer: Optimizer) -> str:
    """Returns an optimizer's class and the arguments that aren't defaults."""
    cls = type(optimizer)
    # A user's subclass may take any arguments.
    ours = next(x for x in cls.__mro__ if x.__module__.startswith("tf_opt."))
    parameters = inspect.signature(ours.__init__).parameters
    values = {
        name: getattr(optimizer, name)
        for name in parameters
        # What is only half constructed lacks some. Keras computes the learning
        # rate of a schedule.
        if name not in ("learning_rate", *SavedChoices.__annotations__)
        and hasattr(optimizer, name)
    }
    learning_rate = given_learning_rate_of(optimizer)
    if learning_rate is not None:
        values["learning_rate"] = learning_rate
    # Keras numbers the optimizers that were given no name.
    automatic = re.sub(r"_\d+$", "", values.get("name", "")).replace("_", "")
    if automatic == cls.__name__.lower():
        del values["name"]
    return _call(cls.__name__, parameters, values)


def _call(
    name: str,
    parameters: Mapping[str, inspect.Parameter],
    values: Mapping[str, Any],
) -> str:
    arguments = [
        f"{parameter.name}={_readable(values[parameter.name])}"
        for parameter in parameters.values()
        if parameter.name in values
        and not _are_same(values[parameter.name], parameter.default)
    ]
    return f"{name}({', '.join(arguments)})"


def _are_same(value: Any, default: Any) -> bool:
    if isinstance(value, numbers.Real) and isinstance(default, numbers.Real):
        return bool(value == default)
    return _readable(value) == _readable(default)


def _readable(value: Any) -> str:
    try:
        if isinstance(value, (keras.Variable, tf.Variable)):
            with tf.init_scope():
                value = value.numpy()
        if isinstance(value, (np.ndarray, np.generic)):
            # With a float32's own digits: 0.1, not 0.10000000149.
            return str(value)
        if isinstance(value, keras.optimizers.schedules.LearningRateSchedule):
            cls = type(value)
            parameters = inspect.signature(cls.__init__).parameters
            config = {**value.get_config()}
            config.pop("name", None)
            return _call(cls.__name__, parameters, config)
        return repr(value)
    except Exception:
        # A variable without a value, or the method of a user's class.
        return f"<{type(value).__name__}>"
