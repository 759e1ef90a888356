"""The results as a picture."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

import variants
from report import Row
from shapes import WORKLOADS

# One hue a family, the darker the faster; the floor is a line, not a bar.
COLORS = {
    variants.TF_OPT: "#0b6e4f",
    variants.TF_OPT_EAGER: "#73c2a0",
    variants.TF_OPT_XLA: "#2f9e76",
    variants.COMPOSED_XLA: "#8aa399",
    variants.COMPOSED_EAGER: "#b7c9c1",
    variants.TORCH_FUSED: "#6a3d9a",
    variants.TORCH_FOREACH: "#cab2d6",
    variants.TF_CORE: "#7f7f7f",
    variants.KERAS_XLA: "#b2470f",
    variants.KERAS: "#f07f2d",
    variants.KERAS_EAGER: "#fbc490",
}
_BAR_WIDTH = 0.1


def _draw_workload(axes: Axes, rows: Sequence[Row], shown: list[str]) -> None:
    times = {
        (row["variant"], row["contender"]): row["median_ms"] for row in rows
    }
    present = [name for name in COLORS if any(name == c for _, c in times)]
    center = (len(present) - 1) / 2
    half = _BAR_WIDTH * (len(present) / 2 + 0.3)
    for i, contender in enumerate(present):
        for group, variant in enumerate(shown):
            ms = times.get((variant, contender))
            if ms is None:
                continue
            x = group + (i - center) * _BAR_WIDTH
            axes.bar(x, ms, 0.92 * _BAR_WIDTH, color=COLORS[contender])
            axes.annotate(
                f"{ms:,.0f}" if ms >= 10 else f"{ms:.2g}",
                (x, ms),
                (0, 2),
                textcoords="offset points",
                ha="center",
                va="bottom",
                rotation=90,
                fontsize=7,
                # Readable also where the floor's line crosses it.
                bbox={"fc": "white", "ec": "none", "alpha": 0.8, "pad": 0.5},
            )
    for group, variant in enumerate(shown):
        floor = times.get((variant, variants.FLOOR))
        if floor is not None:
            axes.hlines(
                floor, group - half, group + half, color="black", ls="--", lw=1
            )
    low = min(times.values())
    axes.set_ylim(low / 2, 4 * max(times.values()))
    axes.set_yscale("log")
    axes.set_xticks(
        range(len(shown)), [variants.VARIANTS[v].title for v in shown]
    )
    axes.set_xlim(-0.55, len(shown) - 0.45)
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def save(rows: Sequence[Row], machine: dict, path: pathlib.Path) -> None:
    """Draws one panel for each workload and writes a PNG.

    Args:
        rows: The results.
        machine: What `machine.describe` returned.
        path: The file to write.
    """
    shown = [
        name
        for name in variants.VARIANTS
        if any(row["variant"] == name for row in rows)
    ]
    workloads = [w for w in WORKLOADS if any(r["workload"] == w for r in rows)]
    columns = min(2, len(workloads))
    lines = -(-len(workloads) // columns)
    figure = Figure(
        figsize=(8 * columns, 4.2 * lines + 1.2), layout="constrained"
    )
    grid = figure.subplots(lines, columns, squeeze=False)
    for axes in grid.flat[len(workloads) :]:
        axes.set_visible(False)
    for i, workload in enumerate(workloads):
        axes = grid.flat[i]
        own = [row for row in rows if row["workload"] == workload]
        _draw_workload(axes, own, shown)
        axes.set_title(
            f"{WORKLOADS[workload].title}: {own[0]['parameters']:,} parameters,"
            f" {own[0]['tensors']:,} tensor{'s' * (own[0]['tensors'] > 1)}",
            loc="left",
        )
        axes.set_ylabel("ms per step (log scale)")
    present = {row["contender"] for row in rows}
    handles = [
        Patch(color=color, label=name)
        for name, color in COLORS.items()
        if name in present
    ]
    if variants.FLOOR in present:
        handles.append(
            Line2D([], [], color="black", ls="--", lw=1, label=variants.FLOOR)
        )
    figure.legend(
        handles=handles, loc="outside lower center", ncols=5, frameon=False
    )
    figure.suptitle(
        "Milliseconds per optimizer step, lower is better "
        f"({machine['cpu']}, {machine['cores']} cores)",
        fontsize=14,
    )
    figure.savefig(path, dpi=110)
