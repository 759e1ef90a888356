"""Pictures of results: bars for every suite, curves by size."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

import results
import shapes
import variants
from results import Results
from results import Row
from suites import Suite

# The first that a contender's name starts with: one hue for each family.
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


def _bars(axes: Axes, suite: Suite, groups: dict[str, dict[str, Row]]) -> None:
    """Draws one panel: a group of bars for each variant."""
    ticks, labels = [], []
    y = 0.0
    for variant, case in groups.items():
        axes.annotate(
            results.title(variant),
            (0, y),
            (4, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            fontsize=8,
            fontweight="bold",
        )
        reference = case.get(suite.reference)
        for row in case.values():
            if row.contender in suite.hidden:
                continue
            y += 1
            ticks.append(y)
            labels.append(row.contender)
            axes.barh(y, row.median, 0.85, color=_color(row.contender))
            axes.annotate(
                results.cell(row.median, reference and reference.median),
                (row.median, y),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize=7,
            )
        y += 1.3
    if suite.log:
        axes.set_xscale("log")
    axes.set_yticks(ticks, labels, fontsize=7)
    axes.set_ylim(y - 0.5, -0.8)
    axes.margins(x=0.25)
    axes.tick_params(axis="y", length=0)


def _curves(axes: Axes, suite: Suite, rows: Sequence[Row]) -> None:
    """Draws one panel: the median by the size that the family varies."""
    for contender in dict.fromkeys(row.contender for row in rows):
        points = sorted(
            (shapes.ALL_WORKLOADS[row.workload].size, row.median)
            for row in rows
            if row.contender == contender
        )
        style = "--" if "floor" in contender else "o-"
        axes.plot(
            *zip(*points, strict=True),
            style,
            label=contender,
            color=_color(contender),
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylabel(suite.unit)
    axes.legend(frameon=False, fontsize=7)


def save(suite: Suite, found: Results, path: pathlib.Path) -> None:
    """Draws a panel for each workload, or for each family, and writes a PNG.

    The workloads of a family differ in one size: its panel shows curves.
    """
    bars: dict[str, dict[str, dict[str, Row]]] = {}
    curves: dict[str, list[Row]] = {}
    for (workload, variant), case in found.by_case().items():
        family = results.family(next(iter(case.values())))
        if family:
            case.pop(variants.TF_OPT_MEASURING, None)
            curves.setdefault(family, []).extend(case.values())
        else:
            bars.setdefault(workload, {})[variant] = case
    columns = min(2, len(bars) + len(curves))
    lines = -(-(len(bars) + len(curves)) // columns)
    most = max(
        (sum(map(len, groups.values())) for groups in bars.values()), default=0
    )
    height = 1.5 + max(_INCHES_PER_BAR * most, 2)
    figure = Figure(figsize=(8 * columns, lines * height), layout="constrained")
    grid = iter(figure.subplots(lines, columns, squeeze=False).flat)
    for workload, groups in bars.items():
        axes = next(grid)
        _bars(axes, suite, groups)
        axes.set_title(results.title(workload), loc="left")
        axes.set_xlabel(suite.unit)
    for family, rows in curves.items():
        axes = next(grid)
        _curves(axes, suite, rows)
        axes.set_title(family, loc="left")
    for axes in grid:
        axes.set_visible(False)
    for axes in figure.axes:
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"{suite.title}, lower is better ({found.machine}; in brackets: "
        f"times {suite.reference})",
    )
    figure.savefig(path, dpi=110)
