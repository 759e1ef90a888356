"""Features that another library's optimizers lack."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.state import table_modes


def check(
    optimizer: FusedOptimizer,
    library: str,
    lacks: Sequence[str],
    fixed: Mapping[str, Any],
) -> None:
    """Raises a ValueError for what an optimizer of another library can't do.

    The arguments that it `lacks` must have their defaults, those that are
    `fixed` these values. Averages must not be swapped in. Tables may catch up:
    their rows then hold the results of exact training.
    """
    signature = inspect.signature(type(optimizer)).parameters
    required = {
        **{name: signature[name].default for name in lacks},
        "lazy_mode": table_modes.without_lazy(optimizer.lazy_mode),
        **fixed,
    }
    for name, value in required.items():
        received = getattr(optimizer, name)
        if received != value and (received or value):
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
