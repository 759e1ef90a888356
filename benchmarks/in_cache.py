"""Measures the CPU engine's loop where memory doesn't limit it."""

from __future__ import annotations

import json
import pathlib
import subprocess

from case import Options
from results import Row

PROGRAM = [
    pathlib.Path(__file__).parents[1] / "bazel-bin" / "benchmarks" / "in_cache"
]


def measure(variant: str, workload: str, options: Options) -> list[Row]:
    """Runs the program, which takes some seconds."""
    output = subprocess.run(
        PROGRAM, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    return [
        Row.of(each["mode"], measured, each["target"], samples=[value])
        for each in json.loads(output)
        for measured, value in (
            ("cycles", each["cycles_per_element"]),
            ("nanoseconds", 1e9 / each["elements_per_second"]),
        )
    ]
