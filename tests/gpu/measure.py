"""Runs the measurements that run.sh compiled and prints them in one table.

    python3 measure.py FOLDER [--rounds N]

FOLDER holds the program `speed`. The workloads are those of `make bench`, and
a larger one, and gradients of some rows of a table. Needs only Python; where
its PyTorch sees the GPU, the table has the times of PyTorch's optimizers, too.
"""

import argparse
import math
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))
import torch_fused

import shapes

Rows = dict[tuple[str, str], list[str]]


def workloads() -> dict[str, list[shapes.Shape]]:
    """The tensors of each workload, by its title."""
    found = {each.title: each.shapes for each in shapes.WORKLOADS.values()}
    # Far larger than any cache.
    found["BERT-base x 8"] = 8 * shapes.WORKLOADS["bert-base"].shapes
    return found


def rows(output: str) -> Rows:
    """Lines of columns, by the first two: workload and case."""
    found = {}
    for line in output.splitlines():
        workload, case, *columns = line.split("\t")
        found[workload, case] = columns
    return found


def table(speed: Rows, fused: dict[tuple[str, str], float]) -> str:
    """The measurement in Markdown, beside PyTorch's milliseconds."""
    lines = [
        "| workload | optimizer | launches | ms | GB/s | copy, GB/s | share "
        "| PyTorch, ms |",
        "| :-- | :-- " + "| --: " * 6 + "|",
    ]
    for key, columns in speed.items():
        cells = [*key, *columns[-1:], *4 * ["-"]]  # It had too little memory.
        if len(columns) == 4:
            share = float(columns[2]) / float(columns[3])
            cells = [*key, *columns, f"{share:.0%}"]
        cells.append(f"{fused[key]:.4f}" if key in fused else "-")
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
        [*command, "--rows"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    output += subprocess.run(
        command,
        input="".join(
            f"{title}\t{' '.join(str(math.prod(shape)) for shape in tensors)}\n"
            for title, tensors in workloads().items()
        ),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    fused = {}
    if torch_fused.available():
        print("==> PyTorch's optimizers", flush=True)
        for title, case in rows(output):
            if case in torch_fused.ROW_OPTIMIZERS:
                fused[title, case] = torch_fused.row_milliseconds(
                    title, case, arguments.rounds
                )
        for title, tensors in workloads().items():
            try:
                times = torch_fused.milliseconds(tensors, arguments.rounds)
            except RuntimeError as error:  # Out of memory, say.
                print(f"{title}: {error}")
                continue
            fused |= {(title, case): time for case, time in times.items()}
    print(table(rows(output), fused))


if __name__ == "__main__":
    main()
