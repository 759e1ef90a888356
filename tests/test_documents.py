"""The documents: their examples run, and the site has the whole API.

A Python block of a Markdown file goes on with the names of those before it.
`make docs` names the folder of the site in TF_OPT_SITE. Without it, nothing is
built and only its sources are tested.
"""

import doctest
import inspect
import os
import pathlib
import pkgutil
import re
import subprocess
import sys

import keras
import pytest
import sybil
import tensorflow as tf
import tf_opt
import tf_opt.keras2
from sybil.parsers.markdown import PythonCodeBlockParser

from registry import OPTIMIZERS

ROOT = pathlib.Path(__file__).parents[1]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
# Those that train for seconds what other tests have, too.
TRAINING = "differentiable.md", "fine-tune.md"
WITH_PYTHON = [path for path in DOCUMENTS if "```py" in path.read_text()]

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
# The rest of it has the names and arguments of tf_opt.
PUBLIC |= {"tf_opt.keras2.from_tf_keras", "tf_opt.keras2.to_tf_keras"}
# Methods and attributes of public classes.
MEMBERS = {x for x in REFERENCE if x.rpartition(".")[0] in PUBLIC}

RULES = [name for name in tf_opt.functional.__all__ if name.islower()]
FUNCTIONS = [getattr(tf_opt.functional, name) for name in RULES]
CLASSES = [getattr(tf_opt, name) for name in OPTIMIZERS]
# All but modules and the types of results.
USED = [
    each
    for each in map(pkgutil.resolve_name, sorted(PUBLIC))
    if callable(each) and not hasattr(each, "_fields")
]


# All that docstrings of the installed package have.
EXAMPLES = [
    test
    for name, module in sorted(sys.modules.items())
    if name.startswith("tf_opt.")
    for test in doctest.DocTestFinder(exclude_empty=True).find(module)
    if test.examples
]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.slow] * (path.name in TRAINING))
        for path in WITH_PYTHON
    ],
    ids=lambda path: path.name,
)
def test_python_blocks_run(path, tmp_path, monkeypatch) -> None:
    document = sybil.Document.parse(str(path), PythonCodeBlockParser())
    blocks = list(document)
    # None is overlooked for how it is written.
    assert len(blocks) >= path.read_text().count("```py")
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        block.evaluate()


@pytest.mark.parametrize("path", ["ARCHITECTURE.md", "docs/decisions.md"])
def test_files_that_are_named_exist(path: str) -> None:
    text = (ROOT / path).read_text()
    named = {*re.findall(r"`([\w/-]+\.(?:py|h|cc|bzl))`", text)}
    found = {
        str(file)
        for folder in ("tf_opt", "tests")
        for file in (ROOT / folder).rglob("*.*")
    }
    assert named
    assert not [x for x in named if not any(y.endswith(f"/{x}") for y in found)]


def test_architecture_lists_the_files_of_a_step() -> None:
    variables = [keras.Variable([1.0]) for _ in range(20)]
    optimizer, gradients = tf_opt.Adam(), [tf.ones(1)] * 20
    # What is found once, such as an op's signature, belongs to no step.
    optimizer.apply(gradients, variables)
    package = pathlib.Path(tf_opt.__file__).parent / "python"
    found: list[str] = []

    def note(frame, event, _) -> None:
        path = pathlib.Path(frame.f_code.co_filename)
        is_named = not frame.f_code.co_name.startswith("<")
        if event == "call" and is_named and path.is_relative_to(package):
            name = str(path.relative_to(package))
            found.append(name.removeprefix("optimizers/"))

    # As `fit` does.
    @tf.function(autograph=False)
    def step(gradients: list[tf.Tensor]) -> None:
        sys.setprofile(note)
        try:
            optimizer.apply(gradients, variables)
        finally:
            sys.setprofile(None)

    step(gradients)
    # More calls than a reader follows would be a reason to restructure it.
    assert len(found) <= 220
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.split("### Its files")[1].split("\n## ")[0]
    listed = re.findall(r"`([\w/]+\.py)`", section.split("--- |")[-1])
    assert sorted(listed) == sorted(set(found))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda test: test.name)
def test_docstring_example_runs(example: doctest.DocTest) -> None:
    report: list[str] = []
    results = doctest.DocTestRunner().run(example, out=report.append)
    assert results.attempted
    assert not results.failed, "".join(report)


def test_compatibility_lists_what_is_public() -> None:
    text = (ROOT / "docs/compatibility.md").read_text()
    section = text.split("## Public names")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([\w.]+)`.*? \| (.*) \|$", section, re.MULTILINE)
    listed = [
        f"{module}.{name}"
        for module, names in rows
        for name in re.findall(r"`(\w+)`", names)
    ]
    classes = {x for x in tf_opt.__all__ if inspect.isclass(getattr(tf_opt, x))}
    keras2 = {*tf_opt.keras2.__all__} - classes
    assert classes - {*tf_opt.keras2.__all__} == {"LossScaleOptimizer"}
    public = {module: sys.modules[module].__all__ for module in MODULES}
    public["tf_opt.keras2"] = keras2
    public["tf_opt.keras2.callbacks"] = tf_opt.keras2.callbacks.__all__
    assert sorted(listed) == sorted(
        f"{k}.{x}" for k in public for x in public[k]
    )


def test_what_is_public_has_an_example() -> None:
    names = {example.name for example in EXAMPLES}
    used = {f"{each.__module__}.{each.__qualname__}" for each in USED}
    assert used - names == set()


@pytest.mark.parametrize(
    "function", [*FUNCTIONS, *CLASSES], ids=lambda it: it.__name__
)
def test_every_argument_is_described(function: type) -> None:
    description = inspect.getdoc(function)
    assert "{{" not in description
    described = re.findall(r"^    (?:\*\*)?(\w+): ", description, re.MULTILINE)
    errors = [name for name in described if name.endswith("Error")]
    assert errors
    # Each once, in the order of the signature or not.
    arguments = list(inspect.signature(function).parameters)
    assert sorted(described) == sorted([*arguments, *errors])


# ---- The site. ----

SITE = pathlib.Path(os.environ.get("TF_OPT_SITE", ""))
built = pytest.mark.skipif(
    SITE == pathlib.Path(), reason="`make docs` builds the site"
)


def test_reference_has_every_public_name_once() -> None:
    assert sorted(REFERENCE) == sorted(PUBLIC | MEMBERS)
    assert [x for x in REFERENCE if not pkgutil.resolve_name(x).__doc__] == []


@pytest.mark.parametrize("name", [*OPTIMIZERS, "LossScaleOptimizer"])
def test_reference_has_what_an_optimizer_adds(name: str) -> None:
    cls = getattr(tf_opt, name)
    added = {x for x in dir(cls) if x[0] != "_"}
    added -= {*dir(keras.optimizers.LossScaleOptimizer)}
    added -= {*inspect.signature(cls).parameters}
    assert added <= {member.rpartition(".")[2] for member in MEMBERS}


def browse(page: str, tmp_path: pathlib.Path) -> str:
    return subprocess.run(
        [
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu"),
            *("--no-first-run", "--disable-background-networking"),
            *("--disable-component-update", "--disable-sync"),
            f"--user-data-dir={tmp_path}",
            "--virtual-time-budget=10000",
            *("--dump-dom", f"{SITE.resolve().as_uri()}/{page}"),
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
        shown = browse(page, tmp_path)
        assert shown.count('class="katex"') == formulas, page
        assert "katex-error" not in shown, page


@built
def test_drawings_are_rendered(tmp_path: pathlib.Path) -> None:
    drawings = (ROOT / "ARCHITECTURE.md").read_text().count("```mermaid")
    shown = browse("architecture.html", tmp_path)
    # The theme puts a <div> with the drawing in the place of its source.
    assert shown.count('<div class="mermaid">') == drawings
    assert '<pre class="mermaid">' not in shown


@built
def test_search_finds_a_name(tmp_path: pathlib.Path) -> None:
    shown = browse("index.html?q=layerwise_multipliers", tmp_path)
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
