"""Extension of griffe: understands tf_opt's docstrings as they are written."""

from __future__ import annotations

import re
import textwrap

import griffe

_EXAMPLE = re.compile(r"^Example:\n\n((?:.+\n?)+)", re.MULTILINE)
_REFERENCES = re.compile(r"^References:\n((?: {4}.*\n?)+)", re.MULTILINE)
_DOCUMENT = re.compile(r"\bdocs/([\w/-]+\.md)")
# Markdown would take a line that begins with >= for a quotation.
_COMPARISON = re.compile(r"^( *)(?=>=)", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrites docstrings for griffe's parser of Google's style."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Rewrites one object's docstring."""
        if obj.docstring is not None:
            text = _EXAMPLE.sub(_examples, obj.docstring.value)
            text = _REFERENCES.sub(_references, text)
            text = _COMPARISON.sub(r"\1\\", text)
            obj.docstring.value = _DOCUMENT.sub(r"[\g<0>](../\1)", text)


def _examples(found: re.Match) -> str:
    return "Examples:\n" + textwrap.indent(found[1], "    ")


def _references(found: re.Match) -> str:
    return "**References:**\n\n" + textwrap.dedent(found[1])
