"""Pictures of results: bars for every suite."""

from __future__ import annotations

import pathlib

from matplotlib.axes import Axes
from matplotlib.figure import Figure

import results
from results import Results
from results import Row
from suites import Suite

# The first that a contender's name starts with: one hue for each optimizer.
_COLORS = {
    "tf_opt composed": "#8aa399",
    "tf_opt, eager": "#73c2a0",
    "tf_opt": "#0b6e4f",
    "torch": "#6a3d9a",
    "TF core": "#7f7f7f",
    "Keras, XLA": "#b2470f",
    "Keras, eager": "#fbc490",
    "Keras": "#f07f2d",
    "": "#404040",
}
_INCHES_PER_BAR = 0.17


def _color(contender: str) -> str:
    return next(
        color for start, color in _COLORS.items() if contender.startswith(start)
    )


def _bars(axes: Axes, suite: Suite, rows: list[Row], references: dict) -> None:
    """Draws one panel: a group of bars for each case."""
    ticks, labels = [], []
    y, case = 0.0, None
    for row in rows:
        if row[:2] != case:
            case = row[:2]
            group = row.workload if row.family else row.variant
            axes.annotate(
                f" {results.title(group)}",
                (0, y + 0.3),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=8,
                fontweight="bold",
            )
            y += 1.3
        reference = references.get(case)
        ticks.append(y)
        labels.append(row.contender)
        axes.barh(y, row.median, 0.85, color=_color(row.contender))
        axes.annotate(
            " " + results.cell(row.median, reference and reference.median),
            (row.median, y),
            va="center",
            fontsize=7,
        )
        y += 1
    if suite.log:
        axes.set_xscale("log")
    axes.set_yticks(ticks, labels, fontsize=7)
    axes.set_ylim(y - 0.3, -0.3)
    axes.margins(x=0.25)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(suite.unit)


def save(suite: Suite, found: Results, path: pathlib.Path) -> None:
    """Draws a panel for each workload or family of them, and writes a PNG."""
    panels: dict[str, list[Row]] = {}
    for row in found.rows:
        name = row.family or results.title(row.workload)
        panels.setdefault(name, []).append(row)
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    height = 3 + _INCHES_PER_BAR * max(map(len, panels.values()))
    figure = Figure(figsize=(8 * columns, lines * height), layout="constrained")
    for i, (name, rows) in enumerate(panels.items()):
        axes = figure.add_subplot(lines, columns, i + 1)
        _bars(axes, suite, rows, found.references(suite))
        axes.set_title(name, loc="left")
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"{suite.title}, lower is better ({found.machine}; in brackets: "
        f"times {suite.reference})",
    )
    figure.savefig(path, dpi=110)
