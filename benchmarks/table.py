"""Tables of numbers, for Markdown and for the terminal."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Table:
    """A table for people; the first column holds names, the rest numbers."""

    title: str
    note: str
    header: list[str]
    lines: list[list[str]]

    def to_markdown(self) -> str:
        """The table in Markdown, under its title."""
        rule = [":--"] + ["--:"] * (len(self.header) - 1)
        lines = [
            "| " + " | ".join(cells) + " |"
            for cells in (self.header, rule, *self.lines)
        ]
        return "\n".join([f"## {self.title}", "", self.note, "", *lines, ""])


def milliseconds(value: float | None) -> str:
    """A time, to three digits."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def times(value: float | None) -> str:
    """How many times something else it is."""
    return "" if value is None else f"{value:,.2f}"
