"""Which variables are matrices to Muon, and how their axes are divided."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tf_opt.python.functional.arithmetic import may_be_matrix
from tf_opt.python.functional.checks import require
from tf_opt.python.keras_internals import Variable, path_of
from tf_opt.python.optimizers.state import patterns

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


def check_matrix_axes(name: str, value: Any) -> dict[str, int] | None:
    """Returns a copy; raises a ValueError unless it is what `Muon` takes."""
    if value is None:
        return None
    is_right = isinstance(value, Mapping) and all(
        isinstance(x, int) and not isinstance(x, bool) for x in value.values()
    )
    allowed = "None or a dictionary of regular expressions and integers"
    require(is_right, name, value, allowed)
    patterns.check(name, value, "keys")
    return dict(value)


def input_axes(
    variables: Sequence[Variable],
    excluded: Iterable[bool],
    given: Sequence[int | None] | None,
) -> list[int]:
    """Returns how many axes of each variable are inputs; 0: it is no matrix.

    `given` is what `matrix_axes` is for each variable, None without that.
    """
    return [
        _input_axes_of(x, given and given[i], given is None)
        if may_be_matrix(x) and not is_excluded
        else 0
        for i, (x, is_excluded) in enumerate(
            zip(variables, excluded, strict=True)
        )
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
