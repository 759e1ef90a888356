"""Steps compiled by XLA: what compiling takes, and what a step does."""

from __future__ import annotations

from collections.abc import Sequence

import variants
from report import Row
from report import overview
from table import Table

TITLE = "Adam compiled by XLA"


def tables(rows: Sequence[Row]) -> list[Table]:
    """The steps, and the first calls.

    Args:
        rows: The results.

    Returns:
        The tables.
    """
    first_calls = overview(
        [_first_call(row, rows) for row in rows],
        "First call",
        variants.TF_OPT_XLA,
    )
    return [
        overview(
            [_compared(row, rows) for row in rows],
            "A step",
            variants.TF_OPT_XLA,
        ),
        Table(
            first_calls.title,
            "Milliseconds for the first step, with tracing, compiling and "
            f"allocating (in brackets: times {variants.TF_OPT_XLA}).",
            first_calls.header,
            first_calls.lines,
        ),
    ]


def _compared(row: Row, rows: Sequence[Row], key: str = "median_ms") -> Row:
    """A result beside tf_opt's under XLA on the same workload."""
    (reference,) = (
        other[key]
        for other in rows
        if other["workload"] == row["workload"]
        and other["contender"] == variants.TF_OPT_XLA
    )
    return row | {"ratio_to_tf_opt": row[key] / reference}


def _first_call(row: Row, rows: Sequence[Row]) -> Row:
    """Its first call, as if that were all."""
    compared = _compared(row, rows, "first_call_ms")
    return compared | {"median_ms": row["first_call_ms"]}
