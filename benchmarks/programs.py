"""Runs the programs that measure the CPU engine's loop without TensorFlow."""

from __future__ import annotations

import csv
import pathlib
import subprocess

import machine
import results
from measure import Measurement
from measure import Options
from results import Row

_FOLDER = pathlib.Path(__file__).parents[1] / "bazel-bin/benchmarks"
PROGRAMS = {name: [_FOLDER / name] for name in ("in_cache", "loop")}


def measure(variant: str, workload: str, options: Options) -> list[Row]:
    """Runs the program `variant`, `loop` for arrays of `workload` elements.

    The rows of `loop` name the processor by its family and model, so that those
    of several processors may stand in one file.
    """
    command = [*PROGRAMS[variant]]
    if variant == "loop":
        command += [str(options.rounds), workload]
    output = subprocess.check_output(command, text=True)
    lines = csv.reader(output.splitlines())
    if variant == "loop":
        processor = machine.processor()
        return [
            results.row(
                f"{processor}, {int(size) / 1e6:.1f} M",
                update,
                contender,
                Measurement(list(map(float, rates))),
            )
            for size, update, contender, *rates in lines
        ]
    units = "cycles", "elements/ns"
    return [
        results.row(mode, unit, target, Measurement([float(number)]))
        for mode, target, *numbers in lines
        for unit, number in zip(units, numbers, strict=True)
    ]
