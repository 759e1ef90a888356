"""Results of benchmarks: rows, their CSV and their tables."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import shapes
import variants
from measure import Measurement
from suites import Suite


class Row(NamedTuple):
    """What was measured of one contender of one case, in the suite's unit."""

    workload: str
    variant: str  # The optimizer, or what was measured.
    contender: str
    median: float
    lowest: float
    highest: float
    first_call: float  # 0 if it wasn't measured.
    samples: int  # How many.

    @property
    def family(self) -> str:
        """The family of the workload; empty for none."""
        workload = shapes.ALL_WORKLOADS.get(self.workload)
        return workload.family if workload else ""

    @property
    def measured(self) -> str:
        """What was measured of which contender."""
        return f"{self.variant}, {self.contender}"


def row(
    workload: str, variant: str, contender: str, measured: Measurement
) -> Row:
    """Summarizes the samples of a contender."""
    samples = measured.samples
    return Row(
        *(workload, variant, contender),
        *(statistics.median(samples), min(samples), max(samples)),
        *(measured.first_call, len(samples)),
    )


class Results(NamedTuple):
    """All rows of a run, and where they come from."""

    machine: str
    software: str
    command: str  # And its date.
    rows: list[Row]

    def to_csv(self) -> str:
        """Formats the rows as CSV, after a comment for each other field."""
        text = io.StringIO()
        text.writelines(f"# {line}\n" for line in self[:3])
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(Row._fields)
        for each in self.rows:
            numbers = (f"{number:.5g}" for number in each[3:])
            writer.writerow([*each[:3], *numbers])
        return text.getvalue()

    @classmethod
    def from_csv(cls, text: str) -> Results:
        """Reads what `to_csv` wrote."""
        lines = text.splitlines()
        rows = [
            Row(*each[:3], *map(float, each[3:]))
            for each in csv.reader(lines[4:])
        ]
        return cls(*(line.removeprefix("# ") for line in lines[:3]), rows)

    def references(self, contender: str) -> dict[tuple[str, str], Row]:
        """Returns a contender's row of each case."""
        return {
            each[:2]: each for each in self.rows if each.contender == contender
        }


def title(name: str) -> str:
    """Returns the title of a workload or a variant, or the name itself."""
    known = shapes.ALL_WORKLOADS.get(name) or variants.VARIANTS.get(name)
    return known.title if known else name


def cell(
    row: Row, references: Mapping[tuple[str, str], Row], key: str = "median"
) -> str:
    """Formats a value with three digits, and its ratio to the reference."""
    value = getattr(row, key)
    text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    reference = references.get(row[:2], row)
    if reference is row:
        return text
    return f"{text} ({value / getattr(reference, key):,.2f})"


def _table(
    suite: Suite, name: str, rows: Sequence[Row], results: Results, key: str
) -> str:
    """Formats a table in Markdown, in the suite's layout, under its title."""
    references = results.references(suite.reference)
    cells = {
        (getattr(row, suite.line), getattr(row, suite.column)): cell(
            row, references, key
        )
        for row in rows
    }
    lines = dict.fromkeys(line for line, _ in cells)
    columns = dict.fromkeys(column for _, column in cells)
    table = [
        [suite.line, *map(title, columns)],
        [":--", *["--:"] * len(columns)],
        *(
            [title(line), *(cells.get((line, each), "") for each in columns)]
            for line in lines
        ),
    ]
    text = "\n".join(f"| {' | '.join(line)} |" for line in table)
    return f"## {name}\n\n{text}\n"


def to_markdown(suite: Suite, results: Results) -> str:
    """Formats the whole report as Markdown: tables that compare contenders."""
    parts = [
        f"""# {suite.title}

{results.machine}; {results.software}.

{results.command}. Medians of interleaved samples, {suite.unit} (in brackets:
times {suite.reference}).
"""
    ]
    groups: dict[str, list[Row]] = {}
    for row in results.rows:
        group = title(getattr(row, suite.group)) if suite.group else suite.title
        names = filter(None, (group, row.family))
        groups.setdefault(", ".join(names), []).append(row)
    for name, rows in groups.items():
        parts.append(_table(suite, name, rows, results, "median"))
        if suite.first_calls:
            name = f"{name}, first call"
            parts.append(_table(suite, name, rows, results, "first_call"))
    return "\n".join(parts)
