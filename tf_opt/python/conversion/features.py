"""Features that another library's optimizers lack."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from tf_opt.python.optimizers.base.fused_optimizer import FusedOptimizer


def check(
    optimizer: FusedOptimizer,
    library: str,
    lacks: Sequence[str],
    fixed: Mapping[str, Any],
) -> None:
    """Raises for what an optimizer of another library can't do.

    Args:
        optimizer: A tf_opt optimizer.
        library: The other library.
        lacks: Arguments that must be None or False.
        fixed: Arguments that must have these values.

    Raises:
        ValueError: If an argument has another value, or averages are swapped
            in.
    """
    required = {**dict.fromkeys(lacks), **fixed}
    for name, value in required.items():
        received = getattr(optimizer, name)
        if received != value and (received or value):
            wanted = "off" if value is None else repr(value)
            raise ValueError(
                f"`{name}` must be {wanted} to convert this optimizer, because "
                f"{library} computes nothing else. If other results are fine, "
                f"assign `optimizer.{name}` first; some attributes can't be "
                f"assigned once the optimizer is built. Received: "
                f"{name}={received!r}"
            )
    if optimizer.average_is_swapped_in:
        raise ValueError(
            "`optimizer` must have its averages swapped out. Call "
            f"`optimizer.swap_out_average()`. Received: {optimizer}"
        )
