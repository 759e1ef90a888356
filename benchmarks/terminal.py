"""Runs cases in processes of their own, and shows progress and tables."""

from __future__ import annotations

import json
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import rich.console
import rich.progress
import rich.table

from results import Table

_CASE = pathlib.Path(__file__).with_name("case.py")


def run(
    cases: Sequence[list[str]], console: rich.console.Console
) -> list[dict[str, Any]]:
    """Runs one case after the other and shows their progress."""
    results = []
    # Drawn when a case reports a step, which it does before a pause: a thread
    # that draws at any time would take time from what is timed.
    with rich.progress.Progress(
        *rich.progress.Progress.get_default_columns(),
        rich.progress.TimeElapsedColumn(),
        console=console,
        auto_refresh=False,
    ) as progress:
        task = progress.add_task("starting", total=len(cases))
        for done, arguments in enumerate(cases):
            title = " ".join(arguments[1:3])
            command = [sys.executable, str(_CASE), *arguments]
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True
            ) as process:
                message = {}
                for line in process.stdout:
                    message = json.loads(line)
                    if "doing" in message:
                        progress.update(
                            task,
                            completed=done + message["part"],
                            description=f"{title}: {message['doing']}",
                            refresh=True,
                        )
            if process.returncode != 0:
                raise SystemExit(
                    f"Measuring {title} failed with status "
                    f"{process.returncode}; its output is above. The command "
                    f"was: {shlex.join(command)}"
                )
            results.append(message)
        progress.update(
            task, completed=len(cases), description="done", refresh=True
        )
    return results


def show(table: Table, console: rich.console.Console) -> None:
    """Shows a table."""
    shown = rich.table.Table(title=table.title, caption=table.note)
    for i, name in enumerate(table.header):
        shown.add_column(name, justify="right" if i else "left")
    for cells in table.lines:
        shown.add_row(*cells)
    console.print(shown)
