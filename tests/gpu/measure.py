"""Runs the measurements that run.sh compiled and prints them in one table.

    python3 measure.py FOLDER [--rounds N]

FOLDER holds the program `speed`. The workloads are those of `make bench`, and
a larger one. Needs only Python.
"""

from __future__ import annotations

import argparse
import math
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))
import shapes

Rows = dict[tuple[str, str], list[str]]


def _workloads() -> str:
    """What `speed` reads: a title and its tensors' sizes, a line each."""
    workloads = {each.title: each.shapes for each in shapes.WORKLOADS.values()}
    # Far larger than any cache.
    workloads["BERT-base x 8"] = 8 * shapes.WORKLOADS["bert-base"].shapes
    return "".join(
        f"{title}\t{' '.join(str(math.prod(shape)) for shape in tensors)}\n"
        for title, tensors in workloads.items()
    )


def rows(output: str) -> Rows:
    """Lines of columns, by the first two: workload and case."""
    found = {}
    for line in output.splitlines():
        workload, case, *columns = line.split("\t")
        found[workload, case] = columns
    return found


def table(speed: Rows) -> str:
    """The measurement in Markdown."""
    lines = [
        "| workload | optimizer | launches | ms | GB/s | copy, GB/s | share |",
        "| :-- | :-- " + "| --: " * 5 + "|",
    ]
    for key, columns in speed.items():
        cells = [*key, *columns[:1], *4 * ["-"]]  # It had too little memory.
        if len(columns) == 4:
            share = float(columns[2]) / float(columns[3])
            cells = [*key, *columns, f"{share:.0%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    command = [str(arguments.folder.resolve() / "speed"), str(arguments.rounds)]
    print("==> Against a copy that moves as many bytes", flush=True)
    output = subprocess.run(
        command,
        input=_workloads(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    print(table(rows(output)))


if __name__ == "__main__":
    main()
