"""Steps with variables and state of 16 bits, as a picture."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

import low_precision
import plot
import variants
from all_workloads import ALL_WORKLOADS
from low_precision_variants import LOW_PRECISION
from low_precision_variants import TORCH_FLOAT32
from report import Row
from table import milliseconds
from table import times

_OURS = "tf_opt"
_TORCH = "PyTorch, fused"
_COLORS = {
    _OURS: plot.COLORS[variants.TF_OPT],
    _TORCH: plot.COLORS[variants.TORCH_FUSED],
}
_BAR_HEIGHT = 0.8


class _Bar(NamedTuple):
    """One contender; lengths are times PyTorch's step in float32."""

    label: str
    color: str
    length: float
    ms: float
    floor: float | None


def _bars(name: str, case: low_precision.Case) -> list[_Bar]:
    """A case's bars. Keras' is left out: it would make the others short."""
    variant = LOW_PRECISION[name]
    bars = []
    for contender in variant.precisions:
        slower = low_precision.times_as_fast(case, TORCH_FLOAT32, contender)
        if contender == variants.KERAS or slower is None:
            continue
        row = case[contender]
        floor = row["ratio_to_floor"]
        bars.append(
            _Bar(
                contender,
                _COLORS[_OURS if contender.startswith(_OURS) else _TORCH],
                slower,
                row["median_ms"],
                slower / floor if floor else None,
            )
        )
    return bars


def _draw(axes: Axes, groups: dict[str, list[_Bar]]) -> None:
    """One panel: a group of bars for each type of variables."""
    ticks, labels = [], []
    y = 0.0
    for title, bars in groups.items():
        axes.annotate(
            title,
            (0, y),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontweight="bold",
        )
        for bar in bars:
            y += 1
            ticks.append(y)
            labels.append(bar.label)
            axes.barh(y, bar.length, _BAR_HEIGHT, color=bar.color)
            axes.annotate(
                f"{milliseconds(bar.ms)} ms, {times(1 / bar.length)} x as fast",
                (max(bar.length, bar.floor or 0), y),
                (5, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                # Readable also where a line crosses it.
                bbox={"fc": "white", "ec": "none", "alpha": 0.8, "pad": 0.5},
            )
            if bar.floor is not None:
                half = 0.55 * _BAR_HEIGHT
                axes.vlines(bar.floor, y - half, y + half, color="black", lw=2)
        y += 1.4
    axes.axvline(1, color="gray", ls=":", lw=1)
    axes.set_yticks(ticks, labels)
    axes.set_ylim(y - 0.6, -0.7)
    axes.set_xlabel("time, as a multiple of PyTorch's fused Adam in float32")
    axes.margins(x=0.25)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def save(rows: Sequence[Row], machine: dict, path: pathlib.Path) -> None:
    """Draws a panel for each model and writes a PNG.

    Lengths are ratios: between the types of variables, which are measured one
    after the other, only these hold.

    Args:
        rows: The results.
        machine: What `machine.describe` returned.
        path: The file to write.
    """
    panels: dict[str, dict[str, list[_Bar]]] = {}
    for (workload, name), case in low_precision.cases(rows).items():
        bars = _bars(name, case)
        if bars:
            groups = panels.setdefault(workload, {})
            groups[LOW_PRECISION[name].title] = bars
    lines = [
        sum(len(bars) + 1.4 for bars in groups.values())
        for groups in panels.values()
    ]
    figure = Figure(
        figsize=(10, 0.27 * sum(lines) + len(lines) + 1), layout="constrained"
    )
    figure.suptitle(
        f"{low_precision.TITLE} ({machine['cpu']}, {machine['cores']} cores)",
        fontsize=13,
    )
    if panels:
        grid = figure.subplots(
            len(panels), 1, squeeze=False, height_ratios=lines
        )
        for axes, (workload, groups) in zip(
            grid.flat, panels.items(), strict=True
        ):
            _draw(axes, groups)
            axes.set_title(
                f"{ALL_WORKLOADS[workload].title}: "
                f"{ALL_WORKLOADS[workload].parameters:,} parameters",
                loc="left",
            )
    figure.legend(
        handles=[
            *(Patch(color=color, label=n) for n, color in _COLORS.items()),
            Line2D([], [], color="black", lw=2, label="floor: the same bytes"),
        ],
        loc="outside lower center",
        ncols=3,
        frameon=False,
    )
    figure.savefig(path, dpi=110)
