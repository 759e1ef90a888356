"""What the engine's loop can do where memory doesn't limit it."""

from __future__ import annotations

import json
import pathlib
import subprocess
from typing import Any

from table import Table

_PROGRAM = (
    pathlib.Path(__file__).parents[1] / "bazel-bin" / "benchmarks" / "in_cache"
)
TITLE = "Adam on arrays in the second cache"


def measure() -> list[dict[str, Any]]:
    """Runs the program, which takes some seconds.

    Returns:
        For each mode and instruction set, what it measured.
    """
    result = subprocess.run(
        [_PROGRAM], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(result.stdout)


def table(rows: list[dict[str, Any]]) -> Table:
    """Mode by instruction set."""
    cells = {
        (row["mode"], row["target"]): (
            f"{row['elements_per_second'] / 1e9:.2f} "
            f"({row['cycles_per_element']:.2f})"
        )
        for row in rows
    }
    modes, targets = (
        list(dict.fromkeys(row[key] for row in rows))
        for key in ("mode", "target")
    )
    return Table(
        TITLE,
        "Billions of elements per second, all cores together (in brackets: "
        "cycles per element of one core), the fastest of 5,000 steps.",
        ["", *targets],
        [[mode, *(cells[mode, name] for name in targets)] for mode in modes],
    )
