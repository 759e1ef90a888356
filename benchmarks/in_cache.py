"""Measures the CPU engine's loop where memory doesn't limit it."""

from __future__ import annotations

import csv
import pathlib
import subprocess

import results
from measure import Measurement
from measure import Options
from results import Row

PROGRAM = [pathlib.Path(__file__).parents[1] / "bazel-bin/benchmarks/in_cache"]


def measure(variant: str, workload: str, options: Options) -> list[Row]:
    """Runs the program, which takes some seconds."""
    output = subprocess.run(
        PROGRAM, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    units = "cycles", "elements/ns"
    return [
        results.row(mode, unit, target, Measurement([float(number)]))
        for mode, target, *numbers in csv.reader(output.splitlines())
        for unit, number in zip(units, numbers, strict=True)
    ]
