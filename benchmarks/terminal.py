"""What a benchmark shows in the terminal: its progress and its tables."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import rich.console
import rich.progress
import rich.table

from table import Table


class Process(NamedTuple):
    """A part of a benchmark that runs by itself.

    Attributes:
        title: What it measures.
        command: How to start it. It prints JSON, a line a message: first
            `{"doing": ..., "part": ...}` before every step, at last its
            results.
    """

    title: str
    command: list[str]


def run(
    processes: Sequence[Process], console: rich.console.Console
) -> list[dict[str, Any]]:
    """Runs one process after the other and shows how far they are.

    Args:
        processes: What to run.
        console: Where to show it.

    Returns:
        The last message of each.

    Raises:
        SystemExit: If one fails.
    """
    results = []
    # Drawn when a process reports a step, which it does before a pause: a
    # thread that draws whenever it likes would take time from what is timed.
    with rich.progress.Progress(
        *rich.progress.Progress.get_default_columns(),
        rich.progress.TimeElapsedColumn(),
        console=console,
        auto_refresh=False,
    ) as progress:
        task = progress.add_task("starting", total=len(processes))
        for done, (title, command) in enumerate(processes):
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
                    f"{process.returncode}; what it said is above. The command "
                    f"was: {shlex.join(command)}"
                )
            results.append(message)
        progress.update(
            task, completed=len(processes), description="done", refresh=True
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
