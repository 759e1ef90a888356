"""Parts that several docstrings share."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import TypeVar

_PLACEHOLDER = re.compile(r"^( *)\{\{(\w+)\}\}$", re.MULTILINE)

Documented = TypeVar("Documented", bound=Callable)


def with_parts(**parts: str) -> Callable[[Documented], Documented]:
    """Returns a decorator that fills these parts into docstrings.

    It replaces a line `{{name}}` by the part of that name, with the line's
    indentation.

    Args:
        **parts: The parts, by name.

    Returns:
        The decorator. An unknown name raises a KeyError.
    """

    def part(placeholder: re.Match) -> str:
        indentation, name = placeholder.groups()
        return textwrap.indent(parts[name], indentation)

    def decorate(documented: Documented) -> Documented:
        # `python -OO` removes docstrings.
        if documented.__doc__ is not None:
            documented.__doc__ = _PLACEHOLDER.sub(part, documented.__doc__)
        return documented

    return decorate
