"""The choice of the tables whose state has one number a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers.state import patterns
from tf_opt.python.optimizers.values.gradients import path_of

# All tables of Keras' `Embedding`, or regular expressions for the tables.
RowWise = bool | Sequence[str]


def check(name: str, row_wise: Any) -> bool | list[str]:
    """Returns a copy; raises a ValueError unless it is a `RowWise`."""
    if isinstance(row_wise, (bool, np.bool_)):
        return bool(row_wise)
    return patterns.as_list(
        name,
        row_wise,
        "True, False or a list of regular expressions for the tables' paths",
    )


def tables_of(
    row_wise: bool | list[str], variables: Sequence[Variable]
) -> list[bool]:
    """Returns for each variable whether its state has one number a row.

    Raises:
        ValueError: If one can't have such state, or an expression is found in
            no variable's path, unless it is for one whole path (`^...$`).
    """
    if isinstance(row_wise, bool):
        found = [row_wise and patterns.is_embedding(x) for x in variables]
    else:
        chosen = dict.fromkeys(row_wise, True)
        found = patterns.values_of("row_wise", chosen, variables, False)
    for variable, is_table in zip(variables, found, strict=True):
        if not is_table:
            continue
        is_scalar = len(variable.shape) == 0
        if is_scalar or tf.as_dtype(variable.dtype).is_complex:
            raise ValueError(
                "`row_wise` isn't available for "
                f"`{path_of(variable)}`, which is "
                f"{'a scalar' if is_scalar else 'complex'}. Use patterns for "
                f"the other tables. Received: row_wise={row_wise!r}"
            )
    return found
