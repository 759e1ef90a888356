"""Times whole train steps with Keras' optimizer and with tf_opt's.

    python benchmarks/training.py [--quick] [--tasks ...]

A reader learns when tf_opt pays: where the optimizer's share of a step is
large. It prints a table and writes training.json, .md and .png.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shlex
import sys
from typing import Any

import rich.console
from matplotlib.figure import Figure

import terminal
from table import Table
from table import milliseconds
from table import times

_CASE = pathlib.Path(__file__).with_name("training_case.py")
_TASKS = ("mlp", "convolutional", "transformer", "embedding")
_COLORS = {"Keras": "#b0b0b0", "tf_opt": "#1f77b4"}

Result = dict[str, Any]


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Times whole train steps with Keras' AdamW and tf_opt's."
    )
    parser.add_argument(
        "--tasks", nargs="+", choices=_TASKS, default=_TASKS, metavar="NAME"
    )
    parser.add_argument("--quick", action="store_true", help="few repeats")
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("build/bench-training"),
        metavar="DIR",
        help="where the results go (%(default)s)",
    )
    return parser.parse_args()


def _table(results: list[Result]) -> Table:
    lines = []
    for result in results:
        keras, ours = result["results"]["Keras"], result["results"]["tf_opt"]
        lines.append(
            [
                result["title"],
                f"{result['variables']}",
                f"{result['parameters']:,}",
                milliseconds(keras["step_ms"]),
                milliseconds(ours["step_ms"]),
                times(keras["step_ms"] / ours["step_ms"]),
                milliseconds(keras["apply_ms"]),
                milliseconds(ours["apply_ms"]),
                f"{keras['apply_ms'] / keras['step_ms']:.0%}",
            ]
        )
    return Table(
        "Whole train steps",
        "Milliseconds, AdamW with global_clipnorm; `apply` is the optimizer "
        "alone, its share that of Keras' step.",
        [
            "model",
            "variables",
            "parameters",
            "step, Keras",
            "step, tf_opt",
            "times as fast",
            "apply, Keras",
            "apply, tf_opt",
            "share",
        ],
        lines,
    )


def _draw(results: list[Result], path: pathlib.Path) -> None:
    """For each model and optimizer a bar: the optimizer's part, the rest."""
    figure = Figure(figsize=(9, 1.2 + 1.1 * len(results)), layout="constrained")
    axes = figure.subplots()
    labels = []
    for i, result in enumerate(results):
        whole = result["results"]["Keras"]["step_ms"]
        for k, (name, measured) in enumerate(result["results"].items()):
            y = 3 * i + k
            labels.append((y, f"{result['title']}\n{name}"))
            apply = measured["apply_ms"] / whole
            rest = max(0.0, measured["step_ms"] / whole - apply)
            axes.barh(y, rest, 0.8, color="#e6e6e6")
            axes.barh(y, apply, 0.8, left=rest, color=_COLORS[name])
            axes.annotate(
                f"{milliseconds(measured['step_ms'])} ms",
                (rest + apply, y),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
            )
    axes.set_yticks(*zip(*labels, strict=True), fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set_xlabel("part of Keras' train step; colored: the optimizer")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Runs the benchmark that the command line asks for."""
    arguments = _parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    console = rich.console.Console()
    rounds, steps = (3, 5) if arguments.quick else (15, 20)
    results = terminal.run(
        [
            terminal.Process(
                task,
                [
                    sys.executable,
                    str(_CASE),
                    task,
                    f"--rounds={rounds}",
                    f"--steps={steps}",
                ],
            )
            for task in arguments.tasks
        ],
        console,
    )
    table = _table(results)
    machine = results[0]["machine"]
    path = arguments.output / "training"
    path.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    path.with_suffix(".md").write_text(
        f"# Whole train steps\n\nMade by `{shlex.join(['python', *sys.argv])}` "
        f"on {machine['cpu']}, {machine['cores']} cores.\n\n"
        + table.to_markdown()
    )
    _draw(results, path.with_suffix(".png"))
    terminal.show(table, console)
    for suffix in (".json", ".md", ".png"):
        console.print(f"Written: {path}{suffix}", soft_wrap=True)


if __name__ == "__main__":
    main()
