"""Features that another library's optimizers lack."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from tf_opt.python.optimizers.base.arguments import is_fixed
from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer
from tf_opt.python.optimizers.state import table_modes


def check(
    optimizer: FusedOptimizer,
    library: str,
    lacks: Sequence[str],
    fixed: Mapping[str, Any],
) -> None:
    """Raises for what an optimizer of another library can't do.

    Tables that catch up aren't among it: once their rows have caught up, they
    hold the results of exact training.

    Args:
        optimizer: A tf_opt optimizer.
        library: The other library.
        lacks: Arguments that must have their defaults.
        fixed: Arguments that must have these values.

    Raises:
        ValueError: If an argument has another value, or averages are swapped
            in.
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
                if optimizer.built and is_fixed(name, optimizer._spec)
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
