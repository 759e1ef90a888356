"""Pairs of a tf_opt optimizer and the Keras one with the same numbers."""

from __future__ import annotations

import functools
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
    ours: Callable[..., keras.optimizers.Optimizer],
    theirs: Callable[..., keras.optimizers.Optimizer],
    only_ours: dict[str, Any],
    **shared: Any,
) -> Counterparts:
    return Counterparts(
        functools.partial(ours, **shared, **only_ours),
        functools.partial(theirs, **shared),
    )


_KERAS_EPSILON = {"epsilon": 1e-7, "epsilon_hat": True}

_ADAM = (tf_opt.Adam, keras.optimizers.Adam, _KERAS_EPSILON)

COUNTERPARTS = {
    "Adam": _pair(*_ADAM, learning_rate=0.01),
    # A small beta_2, so that the maximum is above the moment at times.
    "AMSGrad": _pair(*_ADAM, learning_rate=0.01, amsgrad=True, beta_2=0.6),
    "AdamW": _pair(
        tf_opt.AdamW,
        keras.optimizers.AdamW,
        _KERAS_EPSILON,
        learning_rate=0.01,
        weight_decay=0.1,
    ),
    "NAdam": _pair(
        tf_opt.NAdam,
        keras.optimizers.Nadam,
        {"epsilon": 1e-7, "momentum_decay": 1.0},
        learning_rate=0.01,
    ),
}
