"""Where a step's time goes: what each feature adds to AdamW's step."""

from __future__ import annotations

from collections.abc import Sequence

import variants
from report import Row
from shapes import WORKLOADS
from table import Table
from table import milliseconds
from table import times

TITLE = "Where a step's time goes"

# The update alone, then with each feature.
VARIANTS = ("adamw", *variants.FEATURES)
# In the order of the columns.
_CONTENDERS = (
    variants.FLOOR,
    variants.TF_OPT,
    variants.TF_OPT_EAGER,
    variants.TF_OPT_WITHOUT,
    variants.TORCH_FUSED,
    variants.KERAS_XLA,
    variants.KERAS,
    variants.KERAS_EAGER,
)


def tables(rows: Sequence[Row]) -> list[Table]:
    """One table for each model, feature by contender.

    Args:
        rows: The results; those of other variants are left out.

    Returns:
        The tables.
    """
    measured = [row for row in rows if row["variant"] in VARIANTS]
    workloads = dict.fromkeys(row["workload"] for row in measured)
    return [
        _table(
            workload, [row for row in measured if row["workload"] == workload]
        )
        for workload in workloads
    ]


def _table(workload: str, rows: Sequence[Row]) -> Table:
    cases: dict[str, dict[str, Row]] = {}
    for row in rows:
        cases.setdefault(row["variant"], {})[row["contender"]] = row
    contenders = [
        name
        for name in _CONTENDERS
        if any(name in case for case in cases.values())
    ]

    def cell(row: Row | None) -> str:
        if row is None:
            return ""
        ratio = times(row["ratio_to_tf_opt"])
        return f"{milliseconds(row['median_ms'])} ({ratio})"

    return Table(
        WORKLOADS[workload].title,
        "Milliseconds per step (in brackets: times tf_opt in a tf.function); "
        "of accumulated gradients, per micro-step. Bytes are what a step must "
        "move for each parameter.",
        ["step", "bytes", *contenders],
        [
            [
                variants.VARIANTS[name].title,
                f"{variants.VARIANTS[name].bytes_per_parameter:g}",
                *(cell(case.get(contender)) for contender in contenders),
            ]
            for name, case in cases.items()
        ],
    )
