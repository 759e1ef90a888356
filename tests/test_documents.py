"""The examples in the documents and docstrings run, as a reader would run them.

A Python block of a Markdown file goes on with the names of those before it.
"""

from __future__ import annotations

import doctest
import inspect
import pathlib
import re
import sys
from collections.abc import Callable

import pytest
import sybil
import tf_opt
from sybil.parsers.markdown import PythonCodeBlockParser

from registry import OPTIMIZERS

ROOT = pathlib.Path(__file__).parents[1]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
WITH_PYTHON = [path for path in DOCUMENTS if "```py" in path.read_text()]

RULES = [name for name in tf_opt.functional.__all__ if name.islower()]
FUNCTIONS = [getattr(tf_opt.functional, name) for name in RULES]
CLASSES = [getattr(tf_opt, name) for name in OPTIMIZERS]
PUBLIC = [
    tf_opt.build_info,
    tf_opt.from_keras,
    tf_opt.from_torch,
    tf_opt.to_keras,
    tf_opt.to_torch,
    tf_opt.torch_layouts,
    *FUNCTIONS,
    *CLASSES,
    *(getattr(tf_opt.callbacks, name) for name in tf_opt.callbacks.__all__),
]


def _docstring_examples() -> list[doctest.DocTest]:
    """All that the installed package has."""
    modules = [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith("tf_opt.")
    ]
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for module in modules for test in finder.find(module)]
    return [test for test in found if test.examples]


EXAMPLES = _docstring_examples()


@pytest.mark.parametrize("path", WITH_PYTHON, ids=lambda path: path.name)
def test_python_blocks_run(
    path: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = sybil.Document.parse(str(path), PythonCodeBlockParser())
    blocks = list(document)
    # None is overlooked for how it is written.
    assert len(blocks) >= path.read_text().count("```py")
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        block.evaluate()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda test: test.name)
def test_docstring_example_runs(example: doctest.DocTest) -> None:
    report: list[str] = []
    results = doctest.DocTestRunner().run(example, out=report.append)
    assert results.attempted
    assert not results.failed, "".join(report)


@pytest.mark.parametrize("documented", PUBLIC, ids=lambda it: it.__name__)
def test_what_is_public_has_an_example(documented: Callable | type) -> None:
    names = {example.name for example in EXAMPLES}
    assert f"{documented.__module__}.{documented.__qualname__}" in names


@pytest.mark.parametrize(
    "function", [*FUNCTIONS, *CLASSES], ids=lambda it: it.__name__
)
def test_every_argument_is_described(function: Callable | type) -> None:
    description = inspect.getdoc(function)
    assert "{{" not in description
    described = re.findall(r"^    (?:\*\*)?(\w+): ", description, re.MULTILINE)
    errors = [name for name in described if name.endswith("Error")]
    assert errors
    # Each once, in the order of the signature or not.
    arguments = list(inspect.signature(function).parameters)
    assert sorted(described) == sorted([*arguments, *errors])
