"""Where a step's time goes, as a picture."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

import step_time
import variants
from plot import COLORS
from report import Row
from shapes import WORKLOADS
from table import milliseconds

# Those that people would choose among: eager steps of Keras would make all
# others invisible.
_SHOWN = (variants.TF_OPT, variants.TORCH_FUSED, variants.KERAS)
_BAR_HEIGHT = 0.26


def _draw_workload(
    axes: Axes, times: dict[tuple[str, str], float], shown: list[str]
) -> None:
    for group, variant in enumerate(shown):
        for i, contender in enumerate(_SHOWN):
            ms = times.get((variant, contender))
            if ms is None:
                continue
            y = group + (i - (len(_SHOWN) - 1) / 2) * _BAR_HEIGHT
            axes.barh(y, ms, 0.92 * _BAR_HEIGHT, color=COLORS[contender])
            axes.annotate(
                milliseconds(ms),
                (ms, y),
                (3, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
            )
        floor = times.get((variant, variants.FLOOR))
        if floor is not None:
            axes.vlines(
                floor, group - 0.45, group + 0.45, color="black", ls="--", lw=1
            )
    axes.set_yticks(
        range(len(shown)), [variants.VARIANTS[name].title for name in shown]
    )
    axes.invert_yaxis()
    axes.set_xlabel("ms per step")
    axes.margins(x=0.12)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def save(rows: Sequence[Row], machine: dict, path: pathlib.Path) -> None:
    """Draws one panel for each model and writes a PNG.

    Args:
        rows: The results; those of other variants are left out.
        machine: What `machine.describe` returned.
        path: The file to write.
    """
    rows = [row for row in rows if row["variant"] in step_time.VARIANTS]
    shown = list(dict.fromkeys(row["variant"] for row in rows))
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    figure = Figure(
        figsize=(10, len(workloads) * (0.8 * len(shown) + 0.9) + 1.2),
        layout="constrained",
    )
    panels = figure.subplots(len(workloads), 1, squeeze=False)
    for axes, workload in zip(panels.flat, workloads, strict=True):
        times = {
            (row["variant"], row["contender"]): row["median_ms"]
            for row in rows
            if row["workload"] == workload
        }
        _draw_workload(axes, times, shown)
        axes.set_title(
            f"{WORKLOADS[workload].title}: "
            f"{WORKLOADS[workload].parameters:,} parameters",
            loc="left",
        )
    figure.legend(
        handles=[
            *(Patch(color=COLORS[name], label=name) for name in _SHOWN),
            Line2D([], [], color="black", ls="--", lw=1, label=variants.FLOOR),
        ],
        loc="outside lower center",
        ncols=4,
        frameon=False,
    )
    figure.suptitle(
        f"{step_time.TITLE}: ms per step, lower is better "
        f"({machine['cpu']}, {machine['cores']} cores)",
        fontsize=13,
    )
    figure.savefig(path, dpi=110)
