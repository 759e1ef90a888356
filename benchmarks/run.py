"""Times tf_opt's optimizer step beside everybody else's.

    python benchmarks/run.py [--quick] [--workloads ...] [--optimizers ...]

It prints tables and writes results.json, results.md and results.png. Use an
otherwise idle machine with 16 GB of memory.
"""

from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import shlex
import subprocess
import sys

import rich.console
import rich.progress

import plot
import report
import targets
from shapes import WORKLOADS
from variants import KERAS_XLA
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
        choices=WORKLOADS,
        default=list(WORKLOADS),
        metavar="NAME",
        help=f"models to measure, of: {', '.join(WORKLOADS)}",
    )
    parser.add_argument(
        "--optimizers",
        nargs="+",
        choices=VARIANTS,
        metavar="NAME",
        help=f"optimizers to measure, of: {', '.join(VARIANTS)}",
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
        help="few repeats, no compiling with XLA and, unless --optimizers "
        f"says otherwise, {' and '.join(_QUICK_OPTIMIZERS)} only",
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("build/bench"),
        metavar="DIR",
        help="where results.json, .md and .png go (%(default)s)",
    )
    arguments = parser.parse_args()
    if arguments.repeats is None:
        arguments.repeats = 5 if arguments.quick else 15
    if arguments.repeats < 1:
        parser.error(f"--repeats must be at least 1, got {arguments.repeats}")
    if arguments.optimizers is None:
        arguments.optimizers = list(
            _QUICK_OPTIMIZERS if arguments.quick else VARIANTS
        )
    return arguments


def _cases(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """The (variant, workload) pairs to measure."""
    return [
        (variant, workload)
        for variant in arguments.optimizers
        for workload in arguments.workloads
        if workload in (VARIANTS[variant].workloads or WORKLOADS)
    ]


def _command(
    variant: str, workload: str, arguments: argparse.Namespace
) -> list[str]:
    command = [sys.executable, str(_CASE), variant, workload]
    command += [f"--rounds={arguments.repeats}"]
    command += [f"--seconds={1.5 if arguments.quick else 6.0}"]
    if arguments.quick:
        command += ["--without", *_QUICK_WITHOUT]
    return command


def _run_cases(
    arguments: argparse.Namespace, console: rich.console.Console
) -> tuple[dict, list[report.Row]]:
    """The machine and all results."""
    cases = _cases(arguments)
    machine, rows = {}, []
    # Drawn when a case reports a step, which it does before a pause: a thread
    # that draws whenever it likes would take time from what is timed.
    with rich.progress.Progress(
        *rich.progress.Progress.get_default_columns(),
        rich.progress.TimeElapsedColumn(),
        console=console,
        auto_refresh=False,
    ) as progress:
        task = progress.add_task("starting", total=len(cases))
        for done, (variant, workload) in enumerate(cases):
            title = f"{WORKLOADS[workload].title}, {VARIANTS[variant].title}"
            command = _command(variant, workload, arguments)
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True
            ) as process:
                for line in process.stdout:
                    message = json.loads(line)
                    if "rows" in message:
                        machine = message["machine"]
                        rows += message["rows"]
                        continue
                    progress.update(
                        task,
                        completed=done + message["part"],
                        description=f"{title}: {message['doing']}",
                        refresh=True,
                    )
            if process.returncode != 0:
                raise SystemExit(
                    f"Measuring {title} failed with status "
                    f"{process.returncode}; what it said is above. The command "
                    f"was: {shlex.join(command)}"
                )
        progress.update(
            task, completed=len(cases), description="done", refresh=True
        )
    return machine, rows


def main() -> None:
    """Runs the benchmark that the command line asks for."""
    arguments = _parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    console = rich.console.Console()
    machine, rows = _run_cases(arguments, console)

    command = shlex.join(["python", *sys.argv])
    date = datetime.date.today().isoformat()
    overviews = report.overviews(rows)
    reached = targets.table(rows)
    results = arguments.output / "results"
    results.with_suffix(".json").write_text(
        report.to_json(machine, command, date, rows)
    )
    results.with_suffix(".md").write_text(
        report.to_markdown(
            machine, command, date, [reached, *overviews, report.details(rows)]
        )
    )
    plot.save(rows, machine, results.with_suffix(".png"))
    for table in (*overviews, reached):
        table.print_to(console)
    for suffix in (".json", ".md", ".png"):
        console.print(f"Written: {results}{suffix}", soft_wrap=True)


if __name__ == "__main__":
    main()
