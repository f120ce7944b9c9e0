"""The documentation builds as a site, strictly, and the site says what the pages say on GitHub."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
INDEX = "README.md"
GENERATED = {"404.html", "search.html"}
"""Pages that the theme makes."""


@dataclass
class Built:
    """A site, and what the build said."""

    folder: Path
    code: int
    said: str

    def html(self, page: str) -> str:
        path = self.folder / page
        path = path.with_name("index.html") if path.name == "README.md" else path.with_suffix(".html")
        return path.read_text(encoding="utf-8")


def build(folder: Path, *, config: Path = REPOSITORY / "mkdocs.yml") -> Built:
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(config), "--site-dir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=config.parent)
    return Built(folder, done.returncode, done.stderr)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("site"))


# --- the build -----------------------------------------------------------------------


def test_the_strict_build_finds_nothing_wrong(site: Built) -> None:
    orphans = re.search(r'not included in the "nav" configuration:\n((?:  - \S+\n)+)', site.said)

    assert not orphans, f"list these pages in docs/README.md, below the heading that they belong to:\n{orphans[1]}"
    assert site.code == 0, site.said


def test_the_navigation_is_the_index_in_its_order(site: Built) -> None:
    index = (DOCS / INDEX).read_text(encoding="utf-8")
    listed = re.findall(r"^(?:## (.+)|- \[([^\]]+)\]\((\S+?\.md)\).*)$", index, re.MULTILINE)
    menu = re.search(r'<div class="wy-menu.*?</div>', site.html(INDEX), re.DOTALL)
    assert menu

    # The headings of the page that is open stand in the menu too, as "#tutorial".
    entries = re.findall(
        r'class="caption-text">([^<]+)<|<a class="reference internal" href="([^#"]+)">([^<]+)', menu[0]
    )
    shown = [(heading, title, href) for heading, href, title in entries]

    assert [heading for heading, _, _ in shown if heading] == ["Tutorial", "How-to", "Reference", "Explanation"]
    assert shown == [(heading, title, path.replace(".md", ".html")) for heading, title, path in listed]


def small(folder: Path, **pages: str) -> Path:
    """A repository with the settings and hooks of this one, and these pages; ``a__b`` is ``a/b.md``."""
    (folder / "scripts").mkdir()
    for name in ("mkdocs.yml", "scripts/mkdocs_hooks.py"):
        (folder / name).write_bytes((REPOSITORY / name).read_bytes())
    for name, text in pages.items():
        path = folder / "docs" / (name.replace("__", "/") + ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "mkdocs.yml"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[there](away.md)", "away.md"),
        ("[there](../README.md#no-such-heading)", "no-such-heading"),
        ("[there](../../LICENSE)", "LICENSE"),
        ("[there](/how-to/b.md)", "/how-to/b.md"),
    ],
)
def test_a_link_that_leads_nowhere_fails(text: str, wrong: str, tmp_path: Path) -> None:
    config = small(tmp_path, README="# A\n\n## How-to\n\n- [B](how-to/b.md)\n", **{"how-to__b": f"# B\n\n{text}\n"})

    built = build(tmp_path / "site", config=config)

    assert built.code == 1
    assert wrong in built.said


def test_a_page_that_the_index_does_not_list_fails(tmp_path: Path) -> None:
    config = small(tmp_path, README="# A\n\n## How-to\n\n- [B](how-to/b.md)\n", **{"how-to__b": "# B\n", "c": "# C\n"})

    built = build(tmp_path / "site", config=config)

    assert built.code == 1
    assert "- c.md" in built.said


# --- what is on the pages ------------------------------------------------------------

COUNTED = {"h1", "h2", "h3", "h4", "p", "ul", "ol", "li", "table", "tr", "th", "td", "pre", "code", "strong", "em", "a"}


@dataclass
class Shape(HTMLParser):
    """How many elements of each kind a page has, and its blocks of code."""

    counts: Counter[str] = field(default_factory=Counter)
    blocks: list[str] = field(default_factory=list)
    inside: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert attrs is not None
        self.counts.update({tag} & COUNTED)
        if tag == "pre":
            self.inside = True
            self.blocks.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "pre"

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.blocks[-1] += data


def shape(html: str) -> Shape:
    parser = Shape()
    parser.feed(html)
    return parser


def both(page: str, text: str, built: Built) -> tuple[Shape, Shape]:
    """A page in the site, and as CommonMark with tables has it, which is how GitHub reads it."""
    body = re.search(r'itemprop="articleBody">(.*?)</div><footer>', built.html(page), re.DOTALL)
    assert body
    return shape(body[1]), shape(MarkdownIt("commonmark").enable("table").render(text))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_the_same_parts_as_on_github(page: str, site: Built) -> None:
    here, there = both(page, (DOCS / page).read_text(encoding="utf-8"), site)

    assert there.counts["h1"] == 1
    assert here.counts == there.counts
    # Diagrams, commands and examples to the letter.
    assert [block.rstrip("\n") for block in here.blocks] == [block.rstrip("\n") for block in there.blocks]


def test_what_belongs_to_an_item_of_a_list_stays_in_it(tmp_path: Path) -> None:
    text = "# A\n\n- one\n\n      $ code\n\n  more\n- two\n  - three\n\n1. four\n\n   five\n\nsix\n\n    seven\n"
    built = build(tmp_path / "site", config=small(tmp_path, README=text))

    here, there = both(INDEX, text, built)

    # Two lists with three items, one with one: spec.commonmark.org/0.31.2, 5.2.
    assert here.counts == there.counts
    assert (here.counts["ul"], here.counts["ol"], here.counts["li"]) == (2, 1, 4)
    assert here.blocks == there.blocks == ["$ code\n", "seven\n"]


def test_a_diagram_is_in_the_site_as_it_was_drawn(site: Built) -> None:
    drawn = re.search(r"```text\n(.*?)```", (DOCS / "explanation/decisions.md").read_text(encoding="utf-8"), re.DOTALL)
    assert drawn

    blocks = shape(site.html("explanation/decisions.md")).blocks

    assert drawn[1] in blocks


# --- links in the finished site ------------------------------------------------------


def links(text: str) -> Iterator[str]:
    for link in re.findall(r'(?:href|src)="([^"]+)"', text):
        if not re.match(r"\w+:|//", link):
            yield link


def test_every_link_of_the_site_leads_to_a_file_and_an_anchor_in_it(site: Built) -> None:
    broken = []
    pages = {path: path.read_text(encoding="utf-8") for path in site.folder.rglob("*.html")}
    for path, text in pages.items():
        if path.name in GENERATED:
            continue
        for link in links(text):
            target, _, anchor = link.partition("#")
            file = (path.parent / target).resolve() if target not in ("", ".") else path
            if not file.is_file() or (anchor and f'id="{anchor}"' not in pages[file]):
                broken.append(f"{path.relative_to(site.folder)}: {link}")

    assert broken == []


def outside() -> list[tuple[str, str]]:
    """Each link of a page to a file that is not in docs/, with the page."""
    found = set()
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s#]+)", (DOCS / page).read_text(encoding="utf-8")):
            target = (DOCS / page).parent.joinpath(link).resolve()
            if not re.match(r"\w+:", link) and not target.is_relative_to(DOCS):
                found.add((page, target.relative_to(REPOSITORY).as_posix()))
    return sorted(found)


@pytest.mark.parametrize(("page", "target"), outside())
def test_what_lies_outside_of_docs_is_taken_along(page: str, target: str, site: Built) -> None:
    content = (REPOSITORY / target).read_text(encoding="utf-8")
    name = f"source/{target}.txt"
    if target.endswith(".md"):
        name = f"source/{target}".replace("README.md", "index.md").replace(".md", ".html")
        title = re.search(r"^# (.+)$", content, re.MULTILINE)
        assert title
        assert f">{title[1]}</h1>" in (site.folder / name).read_text(encoding="utf-8")
    else:
        assert (site.folder / name).read_text(encoding="utf-8") == content
    assert "../" * page.count("/") + name in [link.partition("#")[0] for link in links(site.html(page))]


def test_a_reader_fetches_nothing_from_elsewhere(site: Built) -> None:
    fetched = []
    for path in site.folder.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assets = re.findall(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"([^\"]+)\"", text)
        assets += re.findall(r"<link\b[^>]*\bhref=\"([^\"]+)\"", text)
        fetched += [f"{path.name}: {asset}" for asset in assets if re.match(r"(\w+:)?//", asset)]
    for path in site.folder.rglob("*.css"):
        sheet = path.read_text(encoding="utf-8")
        assets = re.findall(r"url\(\s*[\"']?([^)\"']+)", sheet) + re.findall(r"@import\s+[\"']([^\"']+)", sheet)
        fetched += [f"{path.name}: {asset}" for asset in assets if re.match(r"(\w+:)?//", asset)]

    assert (site.folder / "css" / "theme.css").is_file()
    assert fetched == []


# --- the anchors ---------------------------------------------------------------------


def test_headings_get_the_anchors_of_github(tmp_path: Path) -> None:
    # github.com/gjtorikian/html-pipeline, toc_filter: lower case, all but words, "-" and blanks out, each blank a dash.
    headings = {"Will it fit?": "will-it-fit", "A & B": "a--b", "`policy.kill`, or not": "policykill-or-not"}
    text = "# A\n\n" + "\n".join(f"## {heading}\n" for heading in headings)

    built = build(tmp_path / "site", config=small(tmp_path, README=text))

    assert built.code == 0, built.said
    assert re.findall(r'<h2 id="([^"]+)"', built.html(INDEX)) == list(headings.values())


def test_the_settings_are_strict() -> None:
    settings = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))

    assert settings["strict"] is True
    assert {level for kind in settings["validation"].values() for level in kind.values()} == {"warn"}
