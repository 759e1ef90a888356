"""The pages: short, with links that lead somewhere and measured numbers."""

import csv
import pathlib
import re
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *DOCS.glob("**/*.md")]
# Pages that are looked up, not read: the changelog, the reference, the numbers.
NAV = (ROOT / "mkdocs.yml").read_text()
LONG = {
    "CHANGELOG.md",
    *re.findall(
        r"[\w/-]+\.md", NAV[NAV.index("- API ") : NAV.index("- Inside:")]
    ),
}

_BLOCK = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$\n]+\$", re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(page: pathlib.Path) -> str:
    """A page without code and formulas."""
    return _FORMULA.sub("", _BLOCK.sub("", page.read_text()))


def name(page: pathlib.Path) -> str:
    return str(page.relative_to(DOCS if DOCS in page.parents else ROOT))


SHORT = [
    page
    for page in PAGES
    if name(page) not in LONG and page.parent.name != "benchmark"
]


@pytest.mark.slow
@pytest.mark.parametrize("page", SHORT, ids=name)
def test_a_page_is_read_in_five_minutes(page: pathlib.Path) -> None:
    words = re.findall(r"\w[\w'.,-]*", _LINK.sub("]", prose(page)))
    assert len(words) <= 1200


def test_the_navigation_has_its_pages_at_one_depth() -> None:
    # Where one is deeper, MkDocs can't read the file.
    entries = re.findall(r"^( *)- .*?([\w/-]+\.md)$", NAV, re.MULTILINE)
    assert {len(indent) for indent, _ in entries} == {2, 6}


def anchors(page: pathlib.Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {
        re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")
        for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: pathlib.Path) -> None:
    for link in _LINK.findall(_BLOCK.sub("", page.read_text())):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


# ---- Numbers. ----

# Before a table: the CSV that its numbers are medians of.
_SOURCE = re.compile(r"<!-- medians of (\S+\.csv) -->\n\n?((?:\|.*\n)+)")
TABLES = [
    (page, source, table)
    for page in PAGES
    for source, table in _SOURCE.findall(page.read_text())
]


def rows(path: pathlib.Path) -> Iterator[dict[str, str]]:
    lines = path.read_text().splitlines()
    return csv.DictReader(x for x in lines if x[0] != "#")


@pytest.mark.parametrize(
    ("page", "source", "table"),
    TABLES,
    ids=[f"{name(page)}-{i}" for i, (page, *_) in enumerate(TABLES)],
)
def test_a_tables_numbers_were_measured(page, source, table) -> None:
    measured = [float(row["median"]) for row in rows(page.parent / source)]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    cells = [cell.strip("* ") for line in lines for cell in line[1:]]
    numbers = [x for x in cells if re.fullmatch(r"[\d,]+(\.\d+)?", x)]
    assert numbers
    for number in numbers:
        digits = len(number.partition(".")[2])
        value = float(number.replace(",", ""))
        assert any(round(x, digits) == value for x in measured), number


def test_readmes_table_is_the_benchmarks() -> None:
    medians = {
        (row["workload"], row["variant"], row["contender"]): row["median"]
        for row in rows(DOCS / "benchmark/clients.csv")
    }
    found = []
    for line in (ROOT / "README.md").read_text().splitlines():
        model, *cells = line.strip("| ").split(" | ")
        if (model, "step, ms", "Keras") not in medians:
            continue
        found.append(model)
        keras, ours, factor, *others = (
            float(cell.strip("*").replace(",", "")) for cell in cells
        )
        expected = [
            float(medians[model, variant, contender])
            for variant in ("step, ms", "first step, s", "memory, MB")
            for contender in ("Keras", "tf_opt")
        ]
        assert [keras, ours, *others] == pytest.approx(expected, rel=0.005)
        assert factor == pytest.approx(expected[0] / expected[1], abs=0.051)
    # Also where it doesn't pay.
    assert {"LSTM", "3 small dense layers"} < set(found)
