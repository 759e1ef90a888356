"""What a step with sparse gradients grows with, as a picture."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

import plot
import variants
from report import Row
from sparse_workloads import BY_IDS
from sparse_workloads import BY_ROWS

_STYLES = {
    variants.KERAS: {"color": plot.COLORS[variants.KERAS], "marker": "o"},
    variants.TF_OPT_LAZY: {
        "color": plot.COLORS[variants.TF_OPT],
        "marker": "o",
    },
    variants.ROW_FLOOR: {"color": "black", "ls": "--", "lw": 1},
}


def _draw(
    axes: Axes, rows: Sequence[Row], sizes: dict[str, int], label: str
) -> None:
    """One panel: time by size, for each contender."""
    for contender, style in _STYLES.items():
        points = sorted(
            (sizes[row["workload"]], row["median_ms"])
            for row in rows
            if row["contender"] == contender and row["workload"] in sizes
        )
        if points:
            axes.plot(*zip(*points, strict=True), label=contender, **style)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(label)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def save(rows: Sequence[Row], machine: dict, path: pathlib.Path) -> None:
    """Draws a panel by ids and one by the table's rows, and writes a PNG.

    Args:
        rows: The results; those of workloads of one size are left out.
        machine: What `machine.describe` returned.
        path: The file to write.
    """
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    by_ids, by_rows = figure.subplots(1, 2, sharey=True)
    _draw(
        by_ids,
        rows,
        {name: workload.ids for name, workload in BY_IDS.items()},
        "ids in a batch (table of 1,000,000 x 64)",
    )
    _draw(
        by_rows,
        rows,
        {name: workload.shapes[0][0] for name, workload in BY_ROWS.items()},
        "rows of the table, of width 16 (8,192 ids in a batch)",
    )
    by_ids.set_ylabel("ms per step")
    figure.legend(
        *by_ids.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=len(_STYLES),
        frameon=False,
    )
    figure.suptitle(
        "A lazy step of Adam takes time for the batch's rows alone "
        f"({machine['cpu']}, {machine['cores']} cores)",
        fontsize=13,
    )
    figure.savefig(path, dpi=110)
