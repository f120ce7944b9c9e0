"""What mkdocs.yml cannot say: GitHub's Markdown and anchors, the navigation, and links to files outside of docs/.

The pages are written so that they can be read on GitHub. The site follows them: Markdown is read as CommonMark with
tables, its navigation is the list in ``docs/README.md``, headings get the anchors that GitHub gives them, and what a
page links to elsewhere in the repository is taken along, Markdown as a page and everything else as text.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from markdown import Extension, Markdown
from markdown.blockparser import BlockParser
from markdown.util import Registry
from markdown_it import MarkdownIt
from mkdocs.structure.files import File, Files, InclusionLevel

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

INDEX = "README.md"
TAKEN_ALONG = "source"
"""The folder of the site for what lies outside of docs/."""

STYLE = """\
/* The theme keeps every cell of a table on one line. */
.wy-table-responsive table td, .wy-table-responsive table th { white-space: normal; }
.wy-nav-content { max-width: 64rem; }
"""

_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?!\w+:)([^)\s#]+)(#[^)\s]*)?\)")
_ENTRY = re.compile(r"^- \[([^\]]+)\]\(([^)\s#]+\.md)\)", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Read Markdown as GitHub does, and take the navigation from the index."""
    index = Path(config.docs_dir, INDEX).read_text(encoding="utf-8")
    config.nav = [{"Documentation": INDEX}, *navigation(index)]
    extensions: list[Any] = config.markdown_extensions  # names, and objects as well
    extensions.append(CommonMark())
    config.mdx_configs["toc"] = {"slugify": anchor}
    return config


class CommonMark(Extension):
    """CommonMark with tables in place of Python-Markdown's own dialect, which has other lists and code in them."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (as inherited)
        """Put another reader in the place of all that reads; what works on the tree afterwards stays."""
        md.parser = _Parser(md)
        md.preprocessors = Registry()
        md.treeprocessors.deregister("inline")


class _Parser(BlockParser):
    def parseDocument(self, lines: Iterable[str]) -> ET.ElementTree:  # noqa: N802 (as inherited)
        """The tree of a page. HTML in it is text, so that what comes out is well-formed."""
        reader = MarkdownIt("commonmark", {"html": False, "xhtmlOut": True}).enable("table")
        source = "\n".join(lines)
        self.root = ET.fromstring(f"<div>{reader.render(source)}</div>")  # noqa: S314 (our own pages)
        return ET.ElementTree(self.root)


def navigation(index: str) -> list[dict[str, list[dict[str, str]]]]:
    """Each section of the index that lists pages, with the first link of every entry."""
    sections = re.split(r"^## (.+)\n", index, flags=re.MULTILINE)[1:]
    found = {
        heading: [{title: path} for title, path in _ENTRY.findall(body)]
        for heading, body in zip(sections[::2], sections[1::2], strict=True)
    }
    return [{heading: entries} for heading, entries in found.items() if entries]


def anchor(heading: str, _separator: str = "-") -> str:
    """The anchor that GitHub gives a heading: lower case, blanks to dashes, punctuation left out."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what the pages link to outside of docs/, and what that links to in turn."""
    root = Path(config.docs_dir).parent
    waiting = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    seen = set(waiting)
    while waiting:
        page = waiting.pop()
        for target in _targets((root / page).read_text(encoding="utf-8"), page):
            if target in seen or target.startswith("docs/") or not (root / target).is_file():
                continue
            seen.add(target)
            level = InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, _uri(target), abs_src_path=str(root / target), inclusion=level))
            if target.endswith(".md"):
                waiting.append(target)
    files.append(File.generated(config, "css/pages.css", content=STYLE))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point the links of a page to where its targets are in the site."""
    root = Path(config.docs_dir).parent
    place = os.path.relpath(page.file.abs_src_path or "", root)
    known = {file.src_uri for file in files}
    there = partial(_there, place=place, uri=page.file.src_uri, known=known)
    parts = re.split(rf"({_FENCE.pattern})", markdown, flags=_FENCE.flags)
    return "".join(part if _FENCE.fullmatch(part) else _LINK.sub(there, part) for part in parts)


def _targets(markdown: str, page: str) -> Iterator[str]:
    """What a page of the repository links to, as paths from its root; what leaves the repository is left out."""
    for link in _LINK.finditer(_FENCE.sub("", markdown)):
        target = _target(page, link[1])
        if not target.startswith(".."):
            yield target


def _target(page: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def _there(link: re.Match[str], *, place: str, uri: str, known: set[str]) -> str:
    """The link as the site needs it; one whose target is not in the site as it was, for the strict build to refuse."""
    target = _uri(_target(place, link[1]))
    if target not in known:
        return link[0]
    fragment = link[2] or "" if target.endswith(".md") else ""
    return f"]({posixpath.relpath(target, posixpath.dirname(uri) or '.')}{fragment})"


def _uri(target: str) -> str:
    """Where a file of the repository is in the site. Files that are no pages are shown as text, not downloaded."""
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    return f"{TAKEN_ALONG}/{target}" if target.endswith(".md") else f"{TAKEN_ALONG}/{target}.txt"
