"""Results for people and programs: tables, Markdown, JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import variants
from all_variants import ALL_VARIANTS
from all_workloads import ALL_WORKLOADS
from table import Table
from table import milliseconds
from table import times

# One contender in one case, as case.py reports it.
Row = dict[str, Any]


def _unique(rows: Sequence[Row], key: str) -> list[str]:
    return list(dict.fromkeys(row[key] for row in rows))


def overview(
    rows: Sequence[Row], title: str, reference: str = variants.TF_OPT
) -> Table:
    """Contender by workload: milliseconds, and times tf_opt's.

    Args:
        rows: The results of one optimizer.
        title: What they are about.
        reference: Which of tf_opt's contenders the others are compared with.

    Returns:
        The table.
    """
    cells = {(row["contender"], row["workload"]): row for row in rows}
    workloads = _unique(rows, "workload")

    def cell(contender: str, workload: str) -> str:
        row = cells.get((contender, workload))
        if row is None:
            return ""
        ratio = times(row["ratio_to_tf_opt"])
        return f"{milliseconds(row['median_ms'])} ({ratio})"

    return Table(
        title,
        f"Milliseconds per step (in brackets: times {reference}).",
        ["contender", *(ALL_WORKLOADS[name].title for name in workloads)],
        [
            [contender, *(cell(contender, workload) for workload in workloads)]
            for contender in _unique(rows, "contender")
        ],
    )


def overviews(rows: Sequence[Row]) -> list[Table]:
    """One overview for each optimizer that was measured."""
    return [
        overview(
            [row for row in rows if row["variant"] == variant],
            variants.VARIANTS[variant].title,
        )
        for variant in _unique(rows, "variant")
    ]


def details(rows: Sequence[Row]) -> Table:
    """Every number that was measured."""
    return Table(
        "Details",
        "The first call traces, compiles and allocates. Ratios hold within "
        "one optimizer on one workload, whose contenders took turns.",
        [
            "contender",
            "optimizer",
            "workload",
            "median ms",
            "fastest",
            "slowest",
            "x floor",
            "x tf_opt",
            "first call, s",
            "samples",
        ],
        [
            [
                row["contender"],
                ALL_VARIANTS[row["variant"]].title,
                ALL_WORKLOADS[row["workload"]].title,
                milliseconds(row["median_ms"]),
                milliseconds(min(row["samples_ms"])),
                milliseconds(max(row["samples_ms"])),
                times(row["ratio_to_floor"]),
                times(row["ratio_to_tf_opt"]),
                f"{row['first_call_ms'] / 1e3:.2f}",
                str(len(row["samples_ms"])),
            ]
            for row in rows
        ],
    )


def to_json(
    machine: dict[str, Any], command: str, date: str, rows: list[Row]
) -> str:
    """All numbers for programs."""
    results = {
        "date": date,
        "command": command,
        "machine": machine,
        "results": rows,
    }
    return json.dumps(results, indent=2) + "\n"


def to_markdown(
    title: str,
    machine: dict[str, Any],
    command: str,
    date: str,
    tables: Sequence[Table],
) -> str:
    """The whole report in Markdown."""
    versions = ", ".join(
        f"{name} {version}" for name, version in machine["versions"].items()
    )
    head = [
        f"# {title}",
        "",
        f"{machine['cpu']}, {machine['cores']} cores, "
        f"{machine['memory_gib']} GiB; {versions}; CPU kernels: "
        f"{machine['tf_opt_build_info']['cpu_kernels']}.",
        "",
        f"`{command}`, {date}. Medians of interleaved steps.",
        "",
    ]
    return "\n".join([*head, *(table.to_markdown() for table in tables)])
