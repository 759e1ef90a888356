"""Times tf_opt's optimizer step beside everybody else's.

    python benchmarks/run.py [--quick] [--workloads ...] [--optimizers ...]
    python benchmarks/run.py --features [--quick] [--workloads ...]
    python benchmarks/run.py --sparse [--quick] [--workloads ...]
    python benchmarks/run.py --low-precision [--quick] [--workloads ...]
    python benchmarks/run.py --compiled [--workloads ...]
    python benchmarks/run.py --in-cache

It prints tables and writes results.json, results.md and results.png (with
--features steps.*, with --sparse sparse.*, with --low-precision
low-precision.*, with --compiled compiled.*, with --in-cache in-cache.* without
a picture). Use an otherwise idle machine with 16 GB of memory.
"""

from __future__ import annotations

import argparse
import datetime
import pathlib
import shlex
import sys

import rich.console

import compiled
import in_cache
import low_precision
import low_precision_plot
import low_precision_variants
import machine as machines
import plot
import report
import sparse
import sparse_plot
import step_time
import step_time_plot
import targets
import terminal
from all_variants import ALL_VARIANTS
from all_workloads import ALL_WORKLOADS
from low_precision_variants import LOW_PRECISION
from shapes import WORKLOADS
from sparse_workloads import SPARSE_WORKLOADS
from variants import COMPILED
from variants import FEATURE_WORKLOADS
from variants import KERAS_XLA
from variants import OPTIMIZERS
from variants import VARIANTS

_CASE = pathlib.Path(__file__).with_name("case.py")

_QUICK_OPTIMIZERS = ("adam",)
# Compiling alone would take most of a quick run.
_QUICK_WITHOUT = (KERAS_XLA,)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Times tf_opt's optimizer step beside everybody else's."
    )
    parser.add_argument(
        "--workloads",
        nargs="+",
        choices=ALL_WORKLOADS,
        metavar="NAME",
        help=f"models to measure, of: {', '.join(WORKLOADS)}; with --sparse "
        f"tables, of: {', '.join(SPARSE_WORKLOADS)}; with --low-precision, of: "
        f"{', '.join(low_precision_variants.WORKLOADS)} (unless said "
        "otherwise, all)",
    )
    measured = parser.add_mutually_exclusive_group()
    measured.add_argument(
        "--optimizers",
        nargs="+",
        choices=VARIANTS,
        metavar="NAME",
        help=f"optimizers to measure, of: {', '.join(VARIANTS)} (unless said "
        f"otherwise, the first {len(OPTIMIZERS)})",
    )
    measured.add_argument(
        "--features",
        action="store_true",
        help="measure what clipping, averages and so on add to AdamW's step "
        "and write steps.*, instead of optimizers and results.*",
    )
    measured.add_argument(
        "--sparse",
        action="store_true",
        help="measure sparse gradients of embedding tables and write sparse.*",
    )
    measured.add_argument(
        "--low-precision",
        action="store_true",
        help="measure Adam with variables and state of 16 bits and write "
        "low-precision.*",
    )
    measured.add_argument(
        "--compiled",
        action="store_true",
        help="measure Adam compiled by XLA, with compiling, and write "
        "compiled.*",
    )
    measured.add_argument(
        "--in-cache",
        action="store_true",
        help="measure the engine's loop by instruction set on arrays in the "
        "second cache and write in-cache.*",
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
        help="few repeats, no compiling with XLA and, unless said otherwise, "
        f"{' and '.join(_QUICK_OPTIMIZERS)} only",
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("build/bench"),
        metavar="DIR",
        help="where the results go (%(default)s)",
    )
    arguments = parser.parse_args()
    if arguments.repeats is None:
        arguments.repeats = 5 if arguments.quick else 15
    if arguments.repeats < 1:
        parser.error(f"--repeats must be at least 1, got {arguments.repeats}")
    if arguments.workloads is None:
        if arguments.sparse:
            arguments.workloads = SPARSE_WORKLOADS
        elif arguments.low_precision:
            arguments.workloads = low_precision_variants.WORKLOADS
        else:
            arguments.workloads = WORKLOADS
    if arguments.features:
        arguments.optimizers = step_time.VARIANTS
    elif arguments.sparse:
        arguments.optimizers = sparse.VARIANTS
    elif arguments.low_precision:
        arguments.optimizers = LOW_PRECISION
    elif arguments.compiled:
        arguments.optimizers = tuple(COMPILED)
    elif arguments.optimizers is None:
        arguments.optimizers = (
            _QUICK_OPTIMIZERS if arguments.quick else tuple(OPTIMIZERS)
        )
    return arguments


def _cases(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """The (variant, workload) pairs to measure."""
    if arguments.sparse:
        return [
            (variant, workload)
            for variant in arguments.optimizers
            for workload in arguments.workloads
            if workload in SPARSE_WORKLOADS
            and variant in SPARSE_WORKLOADS[workload].optimizers
        ]
    # The update alone is measured where the features are.
    default = FEATURE_WORKLOADS if arguments.features else WORKLOADS
    return [
        (variant, workload)
        for variant in arguments.optimizers
        for workload in arguments.workloads
        if workload in (ALL_VARIANTS[variant].workloads or default)
    ]


def _process(
    variant: str, workload: str, arguments: argparse.Namespace
) -> terminal.Process:
    command = [sys.executable, str(_CASE), variant, workload]
    command += [f"--rounds={arguments.repeats}"]
    command += [f"--seconds={1.5 if arguments.quick else 6.0}"]
    without = low_precision_variants.WITHOUT.get((variant, workload), ())
    if arguments.quick:
        without = (*_QUICK_WITHOUT, *without)
    if without:
        command += ["--without", *without]
    title = f"{ALL_WORKLOADS[workload].title}, {ALL_VARIANTS[variant].title}"
    return terminal.Process(title, command)


def _measure_in_cache(output: pathlib.Path) -> None:
    rows = in_cache.measure()
    found = in_cache.table(rows)
    command = shlex.join(["python", *sys.argv])
    head = (machines.describe(), command, datetime.date.today().isoformat())
    path = output / "in-cache"
    path.with_suffix(".json").write_text(report.to_json(*head, rows))
    path.with_suffix(".md").write_text(
        report.to_markdown(in_cache.TITLE, *head, [found])
    )
    terminal.show(found, rich.console.Console())


def main() -> None:
    """Runs the benchmark that the command line asks for."""
    arguments = _parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    if arguments.in_cache:
        _measure_in_cache(arguments.output)
        return
    console = rich.console.Console()
    cases = _cases(arguments)
    if not cases:
        raise SystemExit("These optimizers are not measured on these models.")
    results = terminal.run(
        [_process(*case, arguments) for case in cases], console
    )
    machine = results[-1]["machine"]
    rows = [row for result in results for row in result["rows"]]

    if arguments.features:
        path, title = arguments.output / "steps", step_time.TITLE
        overviews, draw = step_time.tables(rows), step_time_plot.save
    elif arguments.sparse:
        path, title = arguments.output / "sparse", sparse.TITLE
        overviews, draw = sparse.tables(rows), sparse_plot.save
    elif arguments.low_precision:
        path = arguments.output / "low-precision"
        title = low_precision.TITLE
        overviews, draw = low_precision.tables(rows), low_precision_plot.save
    elif arguments.compiled:
        path, title = arguments.output / "compiled", compiled.TITLE
        overviews, draw = compiled.tables(rows), plot.save
    else:
        path = arguments.output / "results"
        title = "Milliseconds per optimizer step"
        overviews, draw = report.overviews(rows), plot.save
    command = shlex.join(["python", *sys.argv])
    date = datetime.date.today().isoformat()
    reached = targets.table(rows)
    path.with_suffix(".json").write_text(
        report.to_json(machine, command, date, rows)
    )
    path.with_suffix(".md").write_text(
        report.to_markdown(
            title,
            machine,
            command,
            date,
            [reached, *overviews, report.details(rows)],
        )
    )
    draw(rows, machine, path.with_suffix(".png"))
    for table in (*overviews, reached):
        terminal.show(table, console)
    for suffix in (".json", ".md", ".png"):
        console.print(f"Written: {path}{suffix}", soft_wrap=True)


if __name__ == "__main__":
    main()
