"""The documentation builds without a warning, and needs no other host to be read."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the extra docs is not installed")

from mkdocs.commands.build import build
from mkdocs.config import load_config

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; an error for a broken link, a page without a place, an unknown name."""
    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    return folder


class Loaded(HTMLParser):
    """What a browser loads to show a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        address = given.get("href") if tag == "link" else given.get("src")
        if address:
            self.addresses.append(address)


def test_every_page_is_built(site: Path) -> None:
    pages = (ROOT / "docs").rglob("*.md")
    names = {str(page.relative_to(ROOT / "docs").with_suffix(".html")) for page in pages}
    assert names <= {str(path.relative_to(site)) for path in site.rglob("*.html")}


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    for path in site.rglob("*.html"):
        addresses = Loaded(path.read_text(encoding="utf8")).addresses
        assert addresses
        assert not [address for address in addresses if re.match(r"(https?:)?//", address)], path


def test_equations_are_mathml(site: Path) -> None:
    html = (site / "how-it-works.html").read_text(encoding="utf8")
    assert html.count('display="block"') == 7
    assert "$" not in html


def test_the_reference_has_the_docstrings(site: Path) -> None:
    html = (site / "api.html").read_text(encoding="utf8")
    assert "A KB is opened, not loaded." in html
    assert 'id="spacy_pel.kb.KnowledgeBase.search"' in html
