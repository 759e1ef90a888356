"""Measures tf_opt's optimizers beside Keras', TensorFlow's and PyTorch's.

    python benchmarks/run.py [--quick] [--workloads ...] [--optimizers ...]

An option instead of --optimizers, such as --features, names another suite. A
run prints tables and writes SUITE.csv and SUITE.png. Use an otherwise
idle machine with 16 GB of memory.
"""

import argparse
import datetime
import importlib
import logging
import multiprocessing
import os
import pathlib
import shlex
import sys
from collections.abc import Sequence
from concurrent import futures
from typing import Any

import rich.console
import rich.markdown

# Some suites measure what examples do, and pictures look the same.
sys.path.append(str(pathlib.Path(__file__).parents[1] / "examples"))

import plots
import results
import suites
from results import Results, Row
from suites import Suite
from variants import VARIANTS


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    measured = parser.add_mutually_exclusive_group()
    measured.add_argument(
        "--optimizers",
        nargs="+",
        choices=VARIANTS,
        metavar="NAME",
        help=f"optimizers to measure, of: {', '.join(VARIANTS)} (by default "
        "adam on all models and the others on two; quick: adam)",
    )
    for name, suite in suites.SUITES.items():
        workloads = dict.fromkeys(workload for _, workload in suite.cases)
        if name != suites.DEFAULT:
            measured.add_argument(
                f"--{name}",
                dest="suite",
                action="store_const",
                const=name,
                default=suites.DEFAULT,
                help=f"{suite.title} (workloads: {', '.join(workloads)})",
            )
    parser.add_argument(
        "--workloads",
        nargs="+",
        metavar="NAME",
        help="models, tables or tasks to measure (by default all of the suite)",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        metavar="N",
        help="rounds, in which each contender steps once (15; quick: 5)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="few repeats, and no compiling of Keras' steps",
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("build/bench"),
        metavar="DIR",
        help="where the results go (%(default)s)",
    )
    parser.add_argument(
        "--redraw",
        type=pathlib.Path,
        metavar="CSV",
        help="draws an earlier run of the suite again, and measures nothing",
    )
    return parser.parse_args(arguments)


def _cases(parsed: argparse.Namespace, suite: Suite) -> list[tuple[str, str]]:
    cases = suite.cases
    if parsed.optimizers:
        cases = suites.cases_of(parsed.optimizers)
    elif parsed.quick and parsed.suite == suites.DEFAULT:
        cases = suites.cases_of(["adam"])
    chosen = [
        (variant, workload)
        for variant, workload in cases
        if not parsed.workloads or workload in parsed.workloads
    ]
    if not chosen:
        raise SystemExit(
            f"No case of {parsed.suite} has one of these workloads: "
            f"{', '.join(parsed.workloads)}. See --help."
        )
    return chosen


def measure_here(module: str, *case: Any) -> list[Row]:
    """Measures a case in this process."""
    # To TensorFlow, one function for each contender looks like retracing.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    # It may import torch, and some versions crash if TensorFlow came first.
    return importlib.import_module(module).measure(*case)


def measure(*case: Any) -> list[Row]:
    """Does what `measure_here` does in a process of its own.

    TensorFlow never frees the graph of Keras' optimizers with all that it
    captured, and several cases would not fit into memory.
    """
    processes = multiprocessing.get_context("spawn")
    with futures.ProcessPoolExecutor(1, processes) as executor:
        return executor.submit(measure_here, *case).result()


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the suite that the command line names."""
    parsed = _parse_arguments(arguments)
    suite = suites.SUITES[parsed.suite]
    if parsed.redraw:
        found = Results.from_csv(parsed.redraw.read_text())
        plots.save(suite, found, parsed.redraw.with_suffix(".png"))
        return
    console = rich.console.Console()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    rounds = parsed.repeats or (5 if parsed.quick else 15)
    rows: list[Row] = []
    cases = _cases(parsed, suite)
    for i, case in enumerate(cases):
        console.print(f"{i + 1} of {len(cases)}: {', '.join(case)}")
        rows += measure(suite.module, *case, rounds, parsed.quick)
    command = shlex.join(["python", *sys.argv])
    source = f"`{command}`, {datetime.date.today().isoformat()}"
    # Not before the cases, because it loads TensorFlow into this process.
    machine = importlib.import_module("machine")
    found = Results(machine.describe(), machine.software(), source, rows)
    parsed.output.mkdir(parents=True, exist_ok=True)
    path = parsed.output / f"{parsed.suite}.csv"
    path.write_text(found.to_csv())
    plots.save(suite, found, path.with_suffix(".png"))
    report = results.to_markdown(suite, found)
    console.print(rich.markdown.Markdown(report))
    console.print(f"Written: {path}, and .png beside it")


if __name__ == "__main__":
    main()
