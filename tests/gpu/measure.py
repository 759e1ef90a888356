"""Runs the measurements that run.sh compiled and prints them in one table.

    python3 measure.py FOLDER [--rounds N]

FOLDER holds the program `speed` and the library. Needs only Python, and PyTorch
with CUDA for the comparison with it.
"""

from __future__ import annotations

import argparse
import math
import pathlib
import subprocess
import sys

_HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(_HERE))
import workloads

# Of the copy's bandwidth, there, and launches of any step.
_TARGETS = {"Adam": 0.90, "Adam, bfloat16 variables": 0.85}
_LAUNCHES = 4

Rows = dict[tuple[str, str], list[str]]


def rows(output: str) -> Rows:
    """Lines of columns, by the first two: workload and case."""
    found = {}
    for line in output.splitlines():
        workload, case, *columns = line.split("\t")
        found[workload, case] = columns
    return found


def _run(command: list[str], standard_input: str | None = None) -> str:
    result = subprocess.run(
        command, input=standard_input, stdout=subprocess.PIPE, text=True
    )
    if result.returncode != 0:
        sys.exit(f"Error: this failed: {' '.join(command)}")
    return result.stdout


def _workloads() -> str:
    """What `speed` reads: a title and its tensors' sizes, a line each."""
    return "".join(
        f"{title}\t{' '.join(str(math.prod(shape)) for shape in shapes)}\n"
        for title, shapes in workloads.WORKLOADS.items()
    )


def _torch_sees_a_gpu() -> bool:
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True)
    return result.returncode == 0


def table(speed: Rows, torch: Rows) -> str:
    """Both measurements as one table, in Markdown."""
    lines = [
        "| workload | optimizer | launches | ms | GB/s | copy's GB/s | of copy "
        "| call, ms | PyTorch, ms | of PyTorch |",
        "| :-- | :-- " + "| --: " * 8 + "|",
    ]
    for key in dict.fromkeys([*speed, *torch]):
        cells = list(key)
        if len(speed.get(key, [])) == 4:
            launches, milliseconds, step, copy = speed[key]
            share = float(step) / float(copy)
            cells += [launches, milliseconds, step, copy, f"{share:.0%}"]
        else:  # Not measured there, or too little memory.
            cells += speed.get(key, ["-"])[:1] + 4 * ["-"]
        if key in torch:
            ours, theirs = torch[key]
            cells += [ours, theirs, f"{float(ours) / float(theirs):.2f}"]
        else:
            cells += 3 * ["-"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def targets(speed: Rows, torch: Rows) -> list[str]:
    """What was to be reached, and whether it was."""
    lines = []

    def add(reached: bool, what: str) -> None:
        lines.append(f"{'reached' if reached else 'MISSED '}  {what}")

    largest = workloads.FAR_LARGER_THAN_CACHES
    for case, target in _TARGETS.items():
        columns = speed.get((largest, case), [])
        if len(columns) != 4:
            lines.append(f"unknown  {case}: it did not fit into memory")
            continue
        share = float(columns[2]) / float(columns[3])
        add(
            share >= target,
            f"{case}, {largest}: {share:.1%} of the copy's "
            f"bandwidth (to reach: {target:.0%})",
        )
    most = max(int(c[0]) for c in speed.values() if len(c) == 4)
    many = [
        int(columns[0])
        for (workload, _), columns in speed.items()
        if workload == workloads.MANY and len(columns) == 4
    ]
    add(
        max(many) <= _LAUNCHES,
        f"1,000 small tensors in {max(many)} launches (at most {_LAUNCHES}; "
        f"the most of any workload: {most})",
    )
    for (workload, case), (ours, theirs) in torch.items():
        ratio = float(ours) / float(theirs)
        add(ratio <= 1, f"{case}, {workload}: {ratio:.2f} of PyTorch's time")
    return lines


def main() -> None:
    """Measures and prints, the table last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    rounds = str(arguments.rounds)
    print("==> Against a copy that moves as many bytes", flush=True)
    speed = rows(_run([str(folder / "speed"), rounds], _workloads()))
    torch: Rows = {}
    if _torch_sees_a_gpu():
        print("==> Against PyTorch, on its tensors", flush=True)
        command = [
            sys.executable,
            str(_HERE / "torch_steps.py"),
            str(folder / "libtf_opt_gpu.so"),
            rounds,
        ]
        torch = rows(_run(command))
    else:
        print(f"{sys.executable} has no PyTorch that sees a GPU: no comparison")
    print("\n".join(targets(speed, torch)))
    print()
    print(table(speed, torch))


if __name__ == "__main__":
    main()
