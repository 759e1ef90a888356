"""Hooks of mkdocs.yml: what the site has besides the files in docs/."""

from __future__ import annotations

import pathlib
import posixpath
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = pathlib.Path(__file__).parents[1]
# Documents in the root, and the pages that they become.
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "THIRD_PARTY_NOTICES.md": "third-party-notices.md",
}
_IMAGE = re.compile(r'<img [^>]*src="([^"]*)"[^>]*>')
_SOURCES = {page: source for source, page in PAGES.items()}
_LINK = re.compile(r"\[([^][]*)\]\(([^)#\s:]+)")
# A name of the API that isn't the text of a link already.
_NAME = re.compile(r'(?<!">)<code>(tf_opt(?:\.\w+)+)(?:\([^<]*\))?</code>')


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds the root's documents and the scripts of other projects."""
    for source, page in PAGES.items():
        files.append(
            File.generated(config, page, abs_src_path=str(ROOT / source))
        )
    for package, wanted in config.extra["packages"].items():
        name = package.split("@")[0]
        for path, content in _npm_files(package, wanted):
            uri = f"assets/{name}/{path.removeprefix('dist/')}"
            files.append(File.generated(config, uri, content=content))


def _npm_files(package: str, wanted: str) -> Iterator[tuple[str, bytes]]:
    """Yields the files of an npm package whose whole path matches."""
    folder = ROOT / "build" / "npm"
    archive = folder / f"{package.replace('@', '-')}.tgz"
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        npm = pathlib.Path(sys.executable).with_name("npm")
        command = [npm, "pack", "--loglevel=error", package]
        done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            raise PluginError(
                f"npm couldn't fetch {package}; its message is above. See "
                "whether npm's registry (`npm config get registry`) can be "
                "reached, then run `make docs` again"
            )
    with tarfile.open(archive) as opened:
        for member in opened:
            path = member.name.removeprefix("package/")
            if re.fullmatch(wanted, path):
                yield path, opened.extractfile(member).read()


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Makes links that are right in the repository right on the site."""
    here = page.file.src_uri
    folder = posixpath.dirname(_SOURCES.get(here, f"docs/{here}"))

    def on_site(link: re.Match) -> str:
        text, target = link.groups()
        source = posixpath.normpath(posixpath.join(folder, target))
        if not (ROOT / source).is_file():
            return link[0]
        uri = PAGES.get(source, source.removeprefix("docs/"))
        file = files.get_file_from_path(uri)
        if file is None:
            # A source file, which the site then has a copy of.
            file = File.generated(config, uri, abs_src_path=str(ROOT / source))
            files.append(file)
        # A page outside of the navigation has no title yet.
        if text.endswith(".md") and file.page and file.page.title:
            text = file.page.title
        return f"[{text}]({posixpath.relpath(uri, posixpath.dirname(here))}"

    return _LINK.sub(on_site, markdown)


def on_page_content(html: str, page: Page, **_: object) -> str:
    """Links names of the API and pictures, and loads what a page needs."""
    html = _NAME.sub(r'<autoref identifier="\1" optional>\g<0></autoref>', html)
    # A click shows the picture in its own size.
    html = _IMAGE.sub(r'<a href="\1">\g<0></a>', html)
    if 'class="mermaid"' in html:
        here = posixpath.dirname(page.file.src_uri)
        script = posixpath.relpath("assets/mermaid/mermaid.min.js", here)
        html += f'<script src="{script}"></script>'
    return html
