"""Results of benchmarks: rows, CSV files and tables."""

from __future__ import annotations

import csv
import dataclasses
import io
import pathlib
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import shapes
import variants
from suites import Suite

_HEAD = ("machine", "software", "command")


class Row(NamedTuple):
    """One contender of one case, in the suite's unit.

    Attributes:
        workload: The model that was updated.
        variant: The optimizer, or what was measured.
        contender: The implementation.
        median: The median of the samples.
        lowest: The lowest sample.
        highest: The highest sample.
        first_call: The first call, with tracing, compiling and allocating;
            0 if it was not measured.
        samples: The number of samples.
    """

    workload: str
    variant: str
    contender: str
    median: float
    lowest: float
    highest: float
    first_call: float
    samples: int

    @classmethod
    def of(
        cls, *names: str, samples: Sequence[float], first_call: float = 0
    ) -> Row:
        """Summarizes the samples of a contender, which the names name."""
        median = statistics.median(samples)
        extremes = (min(samples), max(samples))
        return cls(*names, median, *extremes, first_call, len(samples))


@dataclasses.dataclass(frozen=True)
class Results:
    """All rows of a run, and where they come from.

    Attributes:
        machine: The processor, its cores and its memory.
        software: The versions.
        command: The command and its date.
        rows: The rows.
    """

    machine: str
    software: str
    command: str
    rows: list[Row]

    def to_csv(self) -> str:
        """Formats the rows as CSV, after a comment for each other field."""
        text = io.StringIO()
        for name in _HEAD:
            text.write(f"# {getattr(self, name)}\n")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(Row._fields)
        for row in self.rows:
            numbers = (f"{number:.5g}" for number in row[3:])
            writer.writerow([*row[:3], *numbers])
        return text.getvalue()

    @classmethod
    def read(cls, path: pathlib.Path) -> Results:
        """Reads what `to_csv` wrote."""
        lines = path.read_text().splitlines()
        head = [line.removeprefix("# ") for line in lines[: len(_HEAD)]]
        rows = []
        for cells in list(csv.reader(lines[len(_HEAD) :]))[1:]:
            numbers = map(float, cells[3:-1])
            rows.append(Row(*cells[:3], *numbers, int(cells[-1])))
        return cls(*head, rows)

    def by_case(self) -> dict[tuple[str, str], dict[str, Row]]:
        """Groups the contenders that took turns."""
        cases: dict[tuple[str, str], dict[str, Row]] = {}
        for row in self.rows:
            case = cases.setdefault((row.workload, row.variant), {})
            case[row.contender] = row
        return cases


def title(name: str) -> str:
    """Returns the title of a workload or a variant, or the name itself."""
    known = shapes.ALL_WORKLOADS.get(name) or variants.ALL_VARIANTS.get(name)
    return known.title if known else name


def family(row: Row) -> str:
    """Returns the family of a row's workload; empty for none."""
    workload = shapes.ALL_WORKLOADS.get(row.workload)
    return workload.family if workload else ""


def cell(value: float, reference: float | None) -> str:
    """Formats a value with three digits, and its ratio to the reference."""
    text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{text} ({value / reference:,.2f})" if reference else text


@dataclasses.dataclass(frozen=True)
class Table:
    """A table; the first column holds names, the others hold numbers."""

    title: str
    note: str
    header: list[str]
    lines: list[list[str]]

    def to_markdown(self) -> str:
        """Formats the table as Markdown, under its title."""
        rule = [":--"] + ["--:"] * (len(self.header) - 1)
        lines = [
            "| " + " | ".join(cells) + " |"
            for cells in (self.header, rule, *self.lines)
        ]
        return "\n".join([f"## {self.title}", "", self.note, "", *lines, ""])


def tables(suite: Suite, results: Results) -> list[Table]:
    """Makes the tables that compare contenders, in the suite's layout."""
    groups: dict[str, list[Row]] = {}
    for row in results.rows:
        names = (title(getattr(row, suite.group)), family(row))
        groups.setdefault(", ".join(filter(None, names)), []).append(row)
    keys = {"": "median", ", first call": "first_call"}
    return [
        _table(suite, f"{name}{suffix}", rows, results, key)
        for name, rows in groups.items()
        for suffix, key in list(keys.items())[: 1 + suite.first_calls]
    ]


def _table(
    suite: Suite, name: str, rows: Sequence[Row], results: Results, key: str
) -> Table:
    cases = results.by_case()
    cells = {}
    for row in rows:
        case = cases[row.workload, row.variant]
        reference = case.get(suite.reference)
        place = getattr(row, suite.line), getattr(row, suite.column)
        cells[place] = cell(
            getattr(row, key), reference and getattr(reference, key)
        )
    lines = list(dict.fromkeys(line for line, _ in cells))
    columns = list(dict.fromkeys(column for _, column in cells))
    return Table(
        name,
        f"{suite.unit} (in brackets: times {suite.reference}).",
        [suite.line, *map(title, columns)],
        [
            [title(line), *(cells.get((line, each), "") for each in columns)]
            for line in lines
        ],
    )


def to_markdown(suite: Suite, results: Results) -> str:
    """Formats the whole report as Markdown."""
    head = [
        f"# {suite.title}",
        "",
        f"{results.machine}; {results.software}.",
        "",
        f"{results.command}. Medians of interleaved samples.",
        "",
    ]
    found = [table.to_markdown() for table in tables(suite, results)]
    return "\n".join([*head, *found])
