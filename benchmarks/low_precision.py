"""Steps with variables and state of 16 bits: what bytes, floors and bits cost.

Those who take part, and what they keep, are in low_precision_variants.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from all_workloads import ALL_WORKLOADS
from low_precision_variants import LOW_PRECISION
from low_precision_variants import PLAIN
from low_precision_variants import STATE_16
from low_precision_variants import STATE_16_STOCHASTIC
from low_precision_variants import STOCHASTIC
from low_precision_variants import TORCH_FLOAT32
from report import Row
from table import Table
from table import milliseconds
from table import times

TITLE = "Adam with variables and state of 16 bits"

# Of each pair the second rounds the variables at random, the first to nearest.
_BITS = ((PLAIN, STOCHASTIC), (STATE_16, STATE_16_STOCHASTIC))

# The contenders that took turns, by name.
Case = dict[str, Row]


def cases(rows: Sequence[Row]) -> dict[tuple[str, str], Case]:
    """The results by workload and variant.

    Args:
        rows: The results; those of other variants are left out.
    """
    found: dict[tuple[str, str], Case] = {}
    for row in rows:
        if row["variant"] in LOW_PRECISION:
            key = (row["workload"], row["variant"])
            found.setdefault(key, {})[row["contender"]] = row
    return found


def times_as_fast(case: Case, contender: str, reference: str) -> float | None:
    """How many times as fast a contender is as another of its case.

    Args:
        case: Who took turns.
        contender: Who.
        reference: As whom.

    Returns:
        The ratio; None if one of the two wasn't measured.
    """
    if not {contender, reference} <= set(case):
        return None
    return case[reference]["median_ms"] / case[contender]["median_ms"]


def tables(rows: Sequence[Row]) -> list[Table]:
    """A table for each model, and what random bits cost.

    Args:
        rows: The results.

    Returns:
        The tables; what was not measured has none.
    """
    by_case = cases(rows)
    workloads = dict.fromkeys(workload for workload, _ in by_case)
    found = [_by_contender(workload, by_case) for workload in workloads]
    bits = _random_bits(by_case)
    return [*found, bits] if bits.lines else found


def _by_contender(workload: str, by_case: dict[tuple[str, str], Case]) -> Table:
    lines = []
    for (of, name), case in by_case.items():
        if of != workload:
            continue
        variant = LOW_PRECISION[name]
        for contender, precision in variant.precisions.items():
            if contender not in case:
                continue
            floor = case.get(variant.floor_of(contender))
            faster = times_as_fast(case, contender, TORCH_FLOAT32)
            lines.append(
                [
                    f"{variant.title}: {contender}",
                    f"{precision.gradient_bytes} + {precision.array_bytes}",
                    milliseconds(case[contender]["median_ms"]),
                    milliseconds(floor and floor["median_ms"]),
                    times(case[contender]["ratio_to_floor"]),
                    times(faster),
                ]
            )
    return Table(
        ALL_WORKLOADS[workload].title,
        "Bytes for each parameter: the gradient is read; variable, master "
        "weights and both moments are read and written (master weights are "
        "compared with the variable, which is read for that). The floor only "
        f"moves these. {TORCH_FLOAT32}, took its turns with the variables of "
        "each type, and the last column compares with those.",
        [
            "contender",
            "bytes",
            "ms",
            "floor, ms",
            "x floor",
            "times as fast as PyTorch in float32",
        ],
        lines,
    )


def _random_bits(by_case: dict[tuple[str, str], Case]) -> Table:
    lines = []
    for (workload, name), case in by_case.items():
        for nearest, stochastic in _BITS:
            faster = times_as_fast(case, nearest.tf_opt, stochastic.tf_opt)
            if faster is None:
                continue
            lines.append(
                [
                    f"{LOW_PRECISION[name].title}, {nearest.kept}",
                    ALL_WORKLOADS[workload].title,
                    milliseconds(case[nearest.tf_opt]["median_ms"]),
                    milliseconds(case[stochastic.tf_opt]["median_ms"]),
                    times(faster),
                ]
            )
    return Table(
        "Random bits",
        "Milliseconds with variables that are rounded to nearest, and at "
        "random. Moments in bfloat16 are always rounded at random: there the "
        "ratio is of one array's bits in addition to two arrays', and what all "
        "cost together is in the ratio to the floor.",
        ["variables and state", "workload", "nearest", "at random", "ratio"],
        lines,
    )
