"""Runs the program that measures the CPU engine's loop without TensorFlow."""

from __future__ import annotations

import csv
import pathlib
import subprocess

import machine
import results
from measure import Measurement
from results import Row

PROGRAM = [pathlib.Path(__file__).parents[1] / "bazel-bin/benchmarks/loop"]


def measure(variant: str, workload: str, rounds: int, quick: bool) -> list[Row]:
    """Runs the program for arrays of `workload` elements.

    Rows name the processor by its family and model, so that those of several
    processors may stand in one file.
    """
    command = [*PROGRAM, str(rounds), workload]
    output = subprocess.check_output(command, text=True)
    processor = machine.processor()
    return [
        results.row(
            f"{processor}, {int(size) / 1e6:.3g} M",
            update,
            contender,
            Measurement(list(map(float, rates))),
        )
        for size, update, contender, *rates in csv.reader(output.splitlines())
    ]
