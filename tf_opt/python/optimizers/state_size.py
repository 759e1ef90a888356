"""How much memory an optimizer's state takes: said, and limited."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from collections.abc import Sequence

import tensorflow as tf

from tf_opt.python.functional import arithmetic
from tf_opt.python.keras_internals import Variable

GIB = 2**30
# From here on it is worth knowing.
LARGE = 1 * GIB


def machine_memory() -> int:
    """The machine's physical memory in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check(
    optimizer: str,
    variables: Sequence[Variable],
    copies: int,
    dtype_of: Callable[[Variable], tf.DType],
    advice: str,
) -> None:
    """Warns of a large state, refuses one that the machine can't hold.

    Args:
        optimizer: What to call the optimizer.
        variables: What it will update.
        copies: How often it keeps their elements, besides once in the type of
            the arithmetic.
        dtype_of: In which type.
        advice: What makes the state smaller.

    Raises:
        ValueError: If the state is larger than the machine's memory.
    """
    size = sum(
        math.prod(variable.shape)
        * (
            arithmetic.slot_dtype(variable.dtype).size
            + copies * dtype_of(variable).size
        )
        for variable in variables
    )
    if size < LARGE:
        return
    says = (
        f"{optimizer} keeps {copies + 1} times the parameters, "
        f"{size / GIB:,.1f} GiB of state"
    )
    limit = machine_memory()
    if size > limit:
        raise ValueError(
            f"{says}: more than this machine's {limit / GIB:,.1f} GiB of "
            f"memory. It needs {advice}."
        )
    warnings.warn(f"{says}. Less of it: {advice}.", stacklevel=3)
