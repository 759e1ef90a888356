"""Pairs of a tf_opt optimizer and the Keras one with the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import keras
import tf_opt


class Counterparts(NamedTuple):
    """Two factories that take the same keyword arguments.

    Attributes:
        ours: Makes the tf_opt optimizer, in Keras' conventions.
        keras: Makes Keras' own.
    """

    ours: Callable[..., keras.optimizers.Optimizer]
    keras: Callable[..., keras.optimizers.Optimizer]


def _pair(
    name: str,
    ours: dict[str, Any],
    keras_name: str | None = None,
    **shared: Any,
) -> Counterparts:
    def make_ours(**arguments: Any) -> keras.optimizers.Optimizer:
        return getattr(tf_opt, name)(**{**shared, **ours, **arguments})

    def make_keras(**arguments: Any) -> keras.optimizers.Optimizer:
        cls = getattr(keras.optimizers, keras_name or name)
        return cls(**{**shared, **arguments})

    return Counterparts(make_ours, make_keras)


_KERAS_EPSILON = {"epsilon": 1e-7, "epsilon_hat": True}

COUNTERPARTS = {
    "Adam": _pair("Adam", _KERAS_EPSILON, learning_rate=0.01),
    # A small beta_2, so that the maximum is above the moment at times.
    "AMSGrad": _pair(
        "Adam", _KERAS_EPSILON, learning_rate=0.01, amsgrad=True, beta_2=0.6
    ),
    "AdamW": _pair(
        "AdamW", _KERAS_EPSILON, learning_rate=0.01, weight_decay=0.1
    ),
    "NAdam": _pair(
        "NAdam",
        {"epsilon": 1e-7, "momentum_decay": 1.0},
        "Nadam",
        learning_rate=0.01,
    ),
}
