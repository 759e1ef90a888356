"""Measures tf_opt's optimizers beside Keras', TensorFlow's and PyTorch's.

    python benchmarks/run.py [--quick] [--workloads ...] [--optimizers ...]
    python benchmarks/run.py --features [--quick] [--workloads ...]

One option each names another suite: --features, --sparse, --low-precision,
--compiled, --compiled-fit, --compiled-memory, --in-cache or --training. A run
prints tables and writes SUITE.csv, SUITE.md and SUITE.png. Use an otherwise
idle machine with 16 GB of memory.
"""

from __future__ import annotations

import argparse
import datetime
import pathlib
import shlex
import sys
from collections.abc import Sequence

import rich.console

import plots
import results
import suites
import terminal
from results import Results
from results import Row
from variants import KERAS_XLA
from variants import LEFT_OUT
from variants import OPTIMIZERS
from variants import VARIANTS

_QUICK_OPTIMIZERS = ("adam",)
# Compiling alone would take most of a quick run.
_QUICK_WITHOUT = (KERAS_XLA,)


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="Workloads: "
        + "; ".join(
            f"{name}: {', '.join(dict.fromkeys(w for _, w in suite.cases))}"
            for name, suite in suites.SUITES.items()
        ),
    )
    measured = parser.add_mutually_exclusive_group()
    measured.add_argument(
        "--optimizers",
        nargs="+",
        choices=VARIANTS,
        metavar="NAME",
        help=f"optimizers to measure, of: {', '.join(VARIANTS)} (by default "
        f"the first {len(OPTIMIZERS)})",
    )
    for name, suite in suites.SUITES.items():
        if name != suites.DEFAULT:
            measured.add_argument(
                f"--{name}",
                dest="suite",
                action="store_const",
                const=name,
                default=suites.DEFAULT,
                help=f"measure {suite.help} and write {name}.*",
            )
    parser.add_argument(
        "--workloads",
        "--tasks",
        nargs="+",
        metavar="NAME",
        help="models, tables or tasks to measure (by default all of the suite)",
    )
    parser.add_argument(
        "--without",
        nargs="+",
        default=[],
        metavar="CONTENDER",
        help="contenders to leave out",
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
        help="few repeats, no compiling with XLA and, by default, only "
        f"{' and '.join(_QUICK_OPTIMIZERS)}",
    )
    parser.add_argument(
        "--from",
        dest="source",
        type=pathlib.Path,
        metavar="CSV",
        help="write the tables and the picture of an earlier run",
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("build/bench"),
        metavar="DIR",
        help="where the results go (%(default)s)",
    )
    parsed = parser.parse_args(arguments)
    if parsed.repeats is None:
        parsed.repeats = 5 if parsed.quick else 15
    if parsed.repeats < 1:
        parser.error(f"--repeats must be at least 1, got {parsed.repeats}")
    return parsed


def _cases(parsed: argparse.Namespace) -> list[tuple[str, str]]:
    """Returns the variant and the workload of each case to measure."""
    cases = suites.SUITES[parsed.suite].cases
    if parsed.optimizers:
        cases = suites.cases_of(parsed.optimizers)
    elif parsed.quick and parsed.suite == suites.DEFAULT:
        cases = suites.cases_of(_QUICK_OPTIMIZERS)
    return [
        (variant, workload)
        for variant, workload in cases
        if not parsed.workloads or workload in parsed.workloads
    ]


def _case_arguments(
    variant: str, workload: str, parsed: argparse.Namespace
) -> list[str]:
    without = (*parsed.without, *LEFT_OUT.get((variant, workload), ()))
    if parsed.quick:
        without = (*without, *_QUICK_WITHOUT)
    return [
        parsed.suite,
        variant,
        workload,
        f"--rounds={parsed.repeats}",
        *(["--quick"] if parsed.quick else []),
        *(["--without", *without] if without else []),
    ]


def _measure(
    parsed: argparse.Namespace, console: rich.console.Console
) -> Results:
    cases = _cases(parsed)
    if not cases:
        raise SystemExit(
            f"No case of {parsed.suite} has one of these workloads: "
            f"{', '.join(parsed.workloads)}. See --help."
        )
    messages = terminal.run(
        [_case_arguments(*case, parsed) for case in cases], console
    )
    command = shlex.join(["python", *sys.argv])
    return Results(
        messages[-1]["machine"],
        messages[-1]["software"],
        f"`{command}`, {datetime.date.today().isoformat()}",
        [Row(*row) for message in messages for row in message["rows"]],
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the suite that the command line names."""
    parsed = _parse_arguments(arguments)
    suite = suites.SUITES[parsed.suite]
    console = rich.console.Console()
    if parsed.source:
        found, name = Results.read(parsed.source), parsed.source.stem
    else:
        found, name = _measure(parsed, console), parsed.suite
    parsed.output.mkdir(parents=True, exist_ok=True)
    path = parsed.output / f"{name}.csv"
    path.write_text(found.to_csv())
    # The CSV is rounded; a later `--from` must write the same tables.
    found = Results.read(path)
    path.with_suffix(".md").write_text(results.to_markdown(suite, found))
    plots.save(suite, found, path.with_suffix(".png"))
    for table in results.tables(suite, found):
        terminal.show(table, console)
    for suffix in (".csv", ".md", ".png"):
        console.print(f"Written: {path.with_suffix(suffix)}", soft_wrap=True)


if __name__ == "__main__":
    main()
