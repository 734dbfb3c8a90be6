"""Check that the documentation builds without warnings and loads nothing from other hosts."""

import re
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the extra docs is not installed")

from mkdocs.commands.build import build
from mkdocs.config import load_config

ROOT = Path(__file__).parents[2]


def test_the_site(tmp_path: Path) -> None:
    """The strict build fails for broken links, pages outside the navigation, and unknown names."""
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True))
    html = {str(p.relative_to(tmp_path)): p.read_text("utf8") for p in tmp_path.rglob("*.html")}
    pages = (ROOT / "docs").rglob("*.md")
    assert {str(p.relative_to(ROOT / "docs").with_suffix(".html")) for p in pages} <= set(html)
    for name, text in html.items():  # what a browser loads to show a page
        loaded = re.findall(r'<link[^>]*\bhref="?([^" >]+)|\bsrc="?([^" >]+)', text)
        elsewhere = [a for a in map("".join, loaded) if re.match(r"(https?:)?//", a)]
        assert loaded and not elsewhere, name
    assert html["how-it-works.html"].count('display="block"') == 7  # equations are MathML
    assert "$" not in html["how-it-works.html"]
    assert 'id="spacy_pel.kb.KnowledgeBase.search"' in html["reference.html"]
