"""Measures the CPU engine's loop where memory doesn't limit it."""

from __future__ import annotations

import csv
import pathlib
import subprocess

import results
from measure import Measurement
from measure import Options
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
        results.row(mode, "cycles", target, Measurement([float(cycles)]))
        for mode, target, cycles in csv.reader(output.splitlines())
    ]
