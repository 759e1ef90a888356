"""Weight decay and learning rate of single variables.

Users name variables by regular expressions on their paths. A step sees vectors
over all variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.functional.step_frame import is_known
from tf_opt.python.keras_internals import Number
from tf_opt.python.optimizers.state import patterns
from tf_opt.python.optimizers.state.optimizer_state import OptimizerState
from tf_opt.python.optimizers.values import validation


def check(name: str, multipliers: Any) -> dict[str, float] | None:
    """Returns a copy of a user's multipliers.

    Raises a ValueError unless they are None or a dictionary of regular
    expressions and numbers >= 0.
    """
    if multipliers is None:
        return None
    if not isinstance(multipliers, Mapping):
        raise ValueError(
            f"`{name}` must be a dictionary of regular expressions and "
            f"factors, or None. Received: {name}={multipliers!r}"
        )
    patterns.check(name, multipliers, "keys")
    for pattern, factor in multipliers.items():
        validation.check_not_negative(f"{name}[{pattern!r}]", factor)
    return {pattern: float(x) for pattern, x in multipliers.items()}


def weight_decays(
    weight_decay: Number | None,
    state: OptimizerState,
    indices: Sequence[int],
) -> float | np.ndarray | tf.Tensor:
    """Returns one weight decay for some variables, or a vector of them."""
    if weight_decay is None or is_known(weight_decay, 0):
        return 0.0
    applies = [not state.excluded[index] for index in indices]
    factors = state.unsaved.weight_decay_multipliers.of(indices)
    if factors is None and isinstance(weight_decay, (int, float, np.number)):
        decay = float(weight_decay)
        return decay if all(applies) else decay * np.array(applies)
    decays = arithmetic.float64(weight_decay) * tf.constant(applies, tf.float64)
    return decays if factors is None else decays * factors


def learning_rate_factors(
    state: OptimizerState, indices: Sequence[int]
) -> float | tf.Tensor:
    """Returns one factor for some variables, or a vector of them."""
    factors = state.unsaved.learning_rate_multipliers.of(indices)
    return 1.0 if factors is None else factors
