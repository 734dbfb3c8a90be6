"""A page to look at proposed entities: one HTML file, which asks nothing of any server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_PARTS = Path(__file__).parent / "page"
# The look of the page of ``pel serve``.
_STYLE = Path(__file__).parents[1] / "serve" / "page" / "page.css"


def page_of(records: Sequence[dict[str, Any]]) -> str:
    """The page that shows proposals.

    Args:
        records: The proposals, as ``proposal_records`` gives them.
    """
    # Nothing in the data may end the script that holds it.
    data = json.dumps(list(records), ensure_ascii=False).replace("<", "\\u003c")
    parts = {
        "/*STYLE*/": _text(_STYLE) + _text(_PARTS / "proposals.css"),
        "/*SCRIPT*/": _text(_PARTS / "proposals.js"),
        "/*DATA*/": data,
    }
    page = _text(_PARTS / "proposals.html")
    for mark, part in parts.items():  # the data last: it may hold any text
        page = page.replace(mark, part, 1)
    return page


def _text(path: Path) -> str:
    return path.read_text(encoding="utf8")
