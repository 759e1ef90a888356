"""Pictures of results: bars for every suite."""

import pathlib

import pictures
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import results
import variants
from results import Results, Row
from suites import Suite

# By the first word of a contender's name. Others are ways of tf_opt's.
_COLORS = {
    "torch": pictures.PYTORCH,
    "TF": pictures.TENSORFLOW,
    "Keras": pictures.KERAS,
    "tf_keras": pictures.KERAS_2,
}
_INCHES_PER_BAR = 0.17


def _is_limit(row: Row) -> bool:
    """Whether a row tells what no optimizer can beat, and is no contender."""
    return "floor" in row.contender or row.contender == variants.CALL


def _bars(axes: Axes, suite: Suite, rows: list[Row], found: Results) -> None:
    """Draws one panel: a group of bars for each case."""
    references = found.references(suite.reference)
    by_workload = suite.panel == "variant"
    ticks, labels = [], []
    y, whole, case = 0.0, 0.0, None
    for row in rows:
        if row[:2] != case:
            case, whole = row[:2], row.median
            names = [row.variant] * (not by_workload)
            names += [row.workload] * (by_workload or row.family != "")
            group = ", ".join(map(results.title, names))
            axes.annotate(
                f" {group}",
                (0, y + 0.3),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=8,
                fontweight="bold",
            )
            y += 1.3
        length = row.median
        if suite.full:
            length *= 100 / whole
        ticks.append(y)
        labels.append(row.contender)
        if _is_limit(row):
            # A mark rather than a bar, which would compete with bars.
            axes.plot(length, y, "|", color=pictures.NEUTRAL, ms=9, mew=2)
        else:
            first_word = row.contender.replace(",", "").split()[0]
            color = _COLORS.get(first_word, pictures.TF_OPT)
            axes.barh(y, length, 0.85, color=color)
        axes.annotate(
            "  " + results.cell(row, references),
            (length, y),
            va="center",
            fontsize=7,
        )
        y += 1
    unit = f"%, relative to {suite.full}" if suite.full else suite.unit
    if suite.log:
        axes.set_xscale("log")
        unit += " (logarithmic: bars don't start at 0)"
    axes.set_yticks(ticks, labels, fontsize=7)
    axes.set_ylim(y - 0.3, -0.3)
    axes.margins(x=0.25)
    if not suite.log:
        axes.set_xlim(left=0)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(unit)


def save(suite: Suite, found: Results, path: pathlib.Path) -> None:
    """Draws a panel for each workload or family of them, and writes a PNG."""
    panels: dict[str, list[Row]] = {}
    drawn = [row for row in found.rows if row.variant == suite.drawn]
    for row in drawn or found.rows:
        name = row.family or results.title(getattr(row, suite.panel))
        panels.setdefault(name, []).append(row)
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    height = 2 + _INCHES_PER_BAR * max(map(len, panels.values()))
    figure = Figure(figsize=(8 * columns, lines * height), layout="constrained")
    grid = figure.add_gridspec(lines, columns)
    for i, (name, rows) in enumerate(panels.items()):
        # The last of an odd number has its line for itself.
        alone = i + 1 == len(panels) and i % columns == 0
        axes = figure.add_subplot(
            grid[i // columns, :] if alone else grid[divmod(i, columns)]
        )
        _bars(axes, suite, rows, found)
        axes.set_title(name, loc="left")
    figure.suptitle(
        f"{suite.title}, lower is better ({found.machine}; in brackets: "
        f"times {suite.reference})",
    )
    pictures.save(figure, path)
