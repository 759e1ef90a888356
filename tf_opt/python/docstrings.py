"""Docstrings with parts that several of them share."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import TypeVar

_PLACEHOLDER = re.compile(r"^( *)\{\{(\w+)\}\}$", re.MULTILINE)

Documented = TypeVar("Documented", bound=Callable)


def with_parts(**parts: str) -> Callable[[Documented], Documented]:
    """Makes a decorator for classes and functions that share these parts.

    In their docstrings, a line `{{name}}` becomes the part of that name,
    indented as the line was.

    Args:
        **parts: The parts, by name.

    Returns:
        The decorator. A name that isn't among the parts is a KeyError.
    """

    def part(placeholder: re.Match) -> str:
        indentation, name = placeholder.groups()
        return textwrap.indent(parts[name], indentation)

    def decorate(documented: Documented) -> Documented:
        if documented.__doc__ is not None:  # It is, under `python -OO`.
            documented.__doc__ = _PLACEHOLDER.sub(part, documented.__doc__)
        return documented

    return decorate
