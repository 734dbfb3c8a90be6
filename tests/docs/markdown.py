"""Pages of documentation as the tests see them: code blocks, links, commands within the text.

Read by markdown-it-py, a CommonMark parser: it tells a fence from a comment, a link from code, and
the line of each, for any language. The libraries that run examples (pytest-examples, mktestdocs,
Sybil) each lack one of what is needed here: shell blocks in one folder, a mark on what cannot run,
links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

NEEDS = re.compile(r"<!-- needs: (\S+) -->")
PARSER = MarkdownIt("commonmark").enable("table")


class Block(NamedTuple):
    """A code block. line: of its fence, from 1. needs: what it takes that the tests do not have."""

    language: str
    code: str
    line: int
    needs: str | None


class Page:
    """A Markdown file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tokens = PARSER.parse(path.read_text(encoding="utf8"))

    @property
    def blocks(self) -> list[Block]:
        """Its code blocks, in their order; one without a fence has the language ""."""
        return list(self._blocks())

    @property
    def marks(self) -> list[str]:
        """What its comments say that the block behind them needs."""
        return [need for token in self._tokens for need in _needs(token)]

    @property
    def links(self) -> list[str]:
        """The targets of its links and images."""
        spans = self._spans()
        targets = (token.attrGet("href") or token.attrGet("src") for token in spans)
        return [str(target) for target in targets if target]

    @property
    def codes(self) -> list[str]:
        """What stands as code within its text."""
        return [token.content for token in self._spans() if token.type == "code_inline"]

    def _blocks(self) -> Iterator[Block]:
        before: Token | None = None
        for token in self._tokens:
            if token.type in ("fence", "code_block"):
                needs = next(iter(_needs(before)), None) if before else None
                start = token.map[0] + 1 if token.map else 0
                yield Block(token.info.strip(), token.content, start, needs)
            before = token

    def _spans(self) -> Iterator[Token]:
        for token in self._tokens:
            yield from token.children or ()


def _needs(token: Token) -> list[str]:
    return NEEDS.findall(token.content) if token.type == "html_block" else []
