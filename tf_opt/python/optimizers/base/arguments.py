"""Passing of the arguments that all constructors share.

Every optimizer's signature lists all arguments, so that `help()` and editors
show them. Their checks are in `ConfiguredOptimizer`. A test compares the
signatures and defaults with each other and with Keras'.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COMMON_ARGUMENTS = (
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
    "decoupled_weight_decay",
    "maximize",
    "learning_rate_multipliers",
    "weight_decay_multipliers",
    "skip_nonfinite",
    "track_gradient_norm",
    "lazy_mode",
    "master_weights",
    "stochastic_rounding",
    "seed",
    "state_dtype",
    "implementation",
)


def common_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Selects the arguments of `FusedOptimizer` from `locals()`."""
    return {name: arguments[name] for name in COMMON_ARGUMENTS}
