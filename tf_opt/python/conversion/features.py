"""Features that another library's optimizers lack."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from tf_opt.python.optimizers.base.arguments import is_off
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.muon import Muon
from tf_opt.python.optimizers.state import table_modes


def check(
    optimizer: FusedOptimizer,
    library: str,
    lacks: Sequence[str],
    fixed: Mapping[str, Any],
) -> None:
    """Raises a ValueError for what an optimizer of another library can't do.

    The arguments that it `lacks` must have their defaults, those that are
    `fixed` these values, unless they are without effect. Averages must not be
    swapped in. Tables may catch up: their rows then hold the results of exact
    training.
    """
    signature = inspect.signature(type(optimizer)).parameters
    required = {
        **{name: signature[name].default for name in lacks},
        "lazy_mode": table_modes.without_lazy(optimizer.lazy_mode),
        **fixed,
    }
    without_effect = set()
    decays = ("weight_decay", "adam_weight_decay")
    if all(is_off(getattr(optimizer, name, None)) for name in decays):
        without_effect |= {"decoupled_weight_decay", "decay_in_direction"}
    if is_off(getattr(optimizer, "momentum", None)):
        without_effect.add("torch_momentum")
    has_matrices = isinstance(optimizer, Muon) and optimizer.built
    for name, value in required.items():
        received = getattr(optimizer, name)
        # An option is off if it is None, False or empty.
        is_same = received == value or not (received or value or name in fixed)
        if name == "matrix_axes" and has_matrices:
            is_same = optimizer._has_matrices_of_keras()
        if not is_same and name not in without_effect:
            advice = (
                "It can't be changed once the optimizer is built"
                if optimizer.built and name in optimizer._fixed
                else "If other results are fine, assign "
                f"`optimizer.{name} = {value!r}` first"
            )
            raise ValueError(
                f"`{name}` must be {value!r} to convert this optimizer, "
                f"because {library} computes nothing else. {advice}. Received: "
                f"{name}={received!r}"
            )
    if optimizer.average_is_swapped_in:
        raise ValueError(
            "`optimizer` must have its averages swapped out. Call "
            f"`optimizer.swap_out_average()`. Received: {optimizer}"
        )
