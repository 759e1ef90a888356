"""Steps with sparse gradients: tables, and what a step's time grows with."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Sequence

import report
import variants
from report import Row
from sparse_workloads import BY_IDS
from sparse_workloads import BY_ROWS
from sparse_workloads import COMPARED
from table import Table

TITLE = "Sparse gradients of embedding tables"

VARIANTS = ("adam", "adam-amsgrad")


def tables(rows: Sequence[Row]) -> list[Table]:
    """A table for each optimizer, and for each size that was varied.

    Args:
        rows: The results.

    Returns:
        The tables; what was not measured has none.
    """
    groups: list[tuple[str, str, Collection[str]]] = [
        *((name, variants.VARIANTS[name].title, COMPARED) for name in VARIANTS),
        ("adam", "Adam, 1,000,000 x 64, by ids", BY_IDS),
        ("adam", "Adam, 8,192 ids, width 16, by rows of the table", BY_ROWS),
    ]
    shown = [
        (
            title,
            [
                row
                for row in rows
                if row["variant"] == variant and row["workload"] in workloads
            ],
        )
        for variant, title, workloads in groups
    ]
    return [
        report.overview(some, title, variants.TF_OPT_LAZY)
        for title, some in shown
        if some
    ]
