"""The site has the whole API, and works from a folder without a server.

`make docs` names the folder in TF_OPT_SITE. Without it, nothing is built and
only the sources of the site are tested.
"""

from __future__ import annotations

import inspect
import os
import pathlib
import pkgutil
import re
import subprocess
import sys

import keras
import pytest
import tf_opt

from registry import OPTIMIZERS

ROOT = pathlib.Path(__file__).parents[1]
REFERENCE = [
    name
    for page in ROOT.glob("docs/api/*.md")
    for name in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE)
]
MODULES = ["tf_opt", "tf_opt.callbacks", "tf_opt.functional"]
PUBLIC = {
    f"{module}.{name}"
    for module in MODULES
    for name in sys.modules[module].__all__
} - {"tf_opt.callbacks", "tf_opt.ops", "tf_opt.__version__"}
# Methods and attributes of public classes.
MEMBERS = {x for x in REFERENCE if x.rpartition(".")[0] in PUBLIC}

SITE = pathlib.Path(os.environ.get("TF_OPT_SITE", ""))
built = pytest.mark.skipif(
    SITE == pathlib.Path(), reason="`make docs` builds the site"
)


def test_reference_has_every_public_name_once() -> None:
    assert sorted(REFERENCE) == sorted(PUBLIC | MEMBERS)


@pytest.mark.parametrize("name", [*OPTIMIZERS, "LossScaleOptimizer"])
def test_reference_has_what_an_optimizer_adds(name: str) -> None:
    cls = getattr(tf_opt, name)
    added = {x for x in dir(cls) if x[0] != "_"}
    added -= {*dir(keras.optimizers.LossScaleOptimizer)}
    added -= {*inspect.signature(cls).parameters}
    assert added <= {member.rpartition(".")[2] for member in MEMBERS}


def test_reference_has_no_name_without_a_docstring() -> None:
    assert [x for x in REFERENCE if not pkgutil.resolve_name(x).__doc__] == []


def browse(page: str, tmp_path: pathlib.Path, *wish: str) -> str:
    """Returns what Chromium prints about a page that it opens as a file."""
    return subprocess.run(
        [
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu"),
            *("--no-first-run", "--disable-background-networking"),
            *("--disable-component-update", "--disable-sync"),
            f"--user-data-dir={tmp_path}",
            "--virtual-time-budget=10000",
            *(*wish, f"{SITE.resolve().as_uri()}/{page}"),
        ],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


@built
def test_formulas_are_rendered(tmp_path: pathlib.Path) -> None:
    formula = 'class="arithmatex"'
    pages = {
        str(path.relative_to(SITE)): text.count(formula)
        for path in SITE.rglob("*.html")
        if formula in (text := path.read_text())
    }
    assert len(pages) >= 3
    for page, formulas in pages.items():
        shown = browse(page, tmp_path, "--dump-dom")
        assert shown.count('class="katex"') == formulas, page
        assert "katex-error" not in shown, page


@built
def test_drawings_are_rendered(tmp_path: pathlib.Path) -> None:
    drawings = (ROOT / "ARCHITECTURE.md").read_text().count("```mermaid")
    shown = browse("architecture.html", tmp_path, "--dump-dom")
    # The theme puts a <div> with the drawing in the place of its source.
    assert shown.count('<div class="mermaid">') == drawings
    assert '<pre class="mermaid">' not in shown


@built
def test_search_finds_a_name(tmp_path: pathlib.Path) -> None:
    shown = browse("index.html?q=layerwise_multipliers", tmp_path, "--dump-dom")
    results = re.findall(r'href="([^"]*)" class="md-search-result', shown)
    name = "/api/utilities.html#tf_opt.layerwise_multipliers"
    assert any(name in result for result in results)


@built
def test_nothing_comes_from_another_host() -> None:
    loaded = re.compile(
        r'<(?:img|script|link|iframe)\b[^>]*(?:src|href)="(?:https?:)?//[^"]*'
    )
    found = {
        path.name: loaded.findall(path.read_text())
        for path in SITE.rglob("*.html")
    }
    assert found
    assert not any(found.values()), found
