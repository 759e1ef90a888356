"""Which variables are matrices to Muon, and how their axes are divided."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tf_opt.python.functional.arithmetic import may_be_matrix
from tf_opt.python.functional.checks import require
from tf_opt.python.keras_internals import Variable
from tf_opt.python.optimizers.state import patterns
from tf_opt.python.optimizers.values.gradients import path_of

# By path, the number of axes that are inputs; if negative, of those that are
# outputs. The names are those of Keras' layers.
KNOWN = {
    # Of attention: [heads, size].
    2: {r"bias[^/]*$": 0},
    # Of attention: [inputs, heads, size] and [heads, size, outputs].
    3: {
        r"(^|/)(query|key|value)/kernel": 1,
        r"(^|/)attention_output/kernel": -1,
        r"depthwise[^/]*(/kernel|_kernel)": 0,
        r"conv[^/]*/(pointwise_)?kernel": -1,
    },
    # Of convolutions. What slides over one channel has one input.
    4: {r"depthwise[^/]*(/kernel|_kernel)": 0, r"kernel[^/]*$": -1},
}


def check_matrix_axes(name: str, value: Any) -> None:
    """Raises a ValueError unless it is what `Muon` takes."""
    if value is None:
        return
    is_right = isinstance(value, Mapping) and all(
        isinstance(x, int) and not isinstance(x, bool) for x in value.values()
    )
    allowed = "None or a dictionary of regular expressions and integers"
    require(is_right, name, value, allowed)
    patterns.check(name, value, "keys")


def input_axes(
    variables: Sequence[Variable],
    exclude_layers: Sequence[str],
    exclude_embeddings: bool,
    matrix_axes: Mapping[str, int] | None,
) -> list[int]:
    """Returns how many axes of each variable are inputs; 0: it is no matrix.

    Raises:
        ValueError: If an expression of `matrix_axes` is found in no path, or a
            variable doesn't have such axes.
    """
    given: list[int | None] = [None] * len(variables)
    if matrix_axes is not None:
        given = patterns.values_of("matrix_axes", matrix_axes, variables, None)
    return [
        0
        if not may_be_matrix(x)
        or (exclude_embeddings and "embedding" in path_of(x).lower())
        or any(re.search(pattern, path_of(x)) for pattern in exclude_layers)
        else _input_axes_of(x, axes, matrix_axes is None)
        for x, axes in zip(variables, given, strict=True)
    ]


def _input_axes_of(
    variable: Variable, given: int | None, are_known: bool
) -> int:
    path, rank = path_of(variable), len(variable.shape)
    if given is None:
        known = KNOWN.get(min(rank, 4), {}).items() if are_known else ()
        found = (axes for name, axes in known if re.search(name, path, re.I))
        given = next(found, 1 if rank == 2 else 0)
    if not abs(given) < rank:
        raise ValueError(
            f"`matrix_axes` must be less than the number of axes of `{path}`, "
            f"of shape {tuple(variable.shape)}. Received: {given}"
        )
    return given % rank
