"""The constructor arguments that all optimizers share.

A constructor lists the arguments that may be positional. It takes the others as
`**options`; `with_options` puts them into its signature, so that `help()` shows
them, and editors know them from the type `Options`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any
from typing import TypedDict
from typing import TypeVar

import tensorflow as tf

# Keras' arguments, which all optimizers take.
_KERAS_ARGUMENTS = (
    "learning_rate",
    "weight_decay",
    "clipnorm",
    "clipvalue",
    "global_clipnorm",
    "use_ema",
    "ema_momentum",
    "ema_overwrite_frequency",
    "loss_scale_factor",
    "gradient_accumulation_steps",
    "name",
)


class Options(TypedDict, total=False):
    """The keyword-only arguments of all optimizers."""

    decoupled_weight_decay: bool
    maximize: bool
    learning_rate_multipliers: Mapping[str, float] | None
    weight_decay_multipliers: Mapping[str, float] | None
    skip_nonfinite: bool
    track_gradient_norm: bool
    lazy_mode: bool
    master_weights: bool
    stochastic_rounding: bool
    seed: int | None
    state_dtype: str | tf.DType | None
    implementation: str


Optimizer = TypeVar("Optimizer", bound=type)


def with_options(cls: Optimizer) -> Optimizer:
    """Lists the options in the signature of a class's constructor.

    Names, order, types and defaults are those of the base class's constructor.
    """
    constructor = cls.__init__
    signature = inspect.signature(constructor)
    (base,) = (
        each for each in cls.__mro__ if each.__name__ == "ConfiguredOptimizer"
    )
    shared = inspect.signature(base.__init__).parameters
    constructor.__signature__ = signature.replace(
        parameters=[
            *(
                parameter
                for parameter in signature.parameters.values()
                if parameter.kind != inspect.Parameter.VAR_KEYWORD
            ),
            *(shared[name] for name in Options.__annotations__),
        ]
    )
    return cls


def common_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the shared arguments out of a constructor's `locals()`."""
    shared = {name: arguments[name] for name in _KERAS_ARGUMENTS}
    return {**shared, **arguments["options"]}
