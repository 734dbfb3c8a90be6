"""The entity ids in a field of a curated corpus: one, several, or none."""

from __future__ import annotations

import re

from ..spans import NIL

_PREFIX = re.compile(r"(?:UMLS|MESH|OMIM):", re.IGNORECASE)
_NONE = ("", NIL, "-", "-1")


def curated_ids(field: str) -> tuple[str, ...]:
    """The ids in a field of PubTator or BioC, each once.

    They are joined by "|", or by the "+" of NCBI disease (docs/corpora.md says what these mean in
    each corpus). The prefixes UMLS:, MESH: and OMIM: are removed, as knowledge bases hold bare ids.
    "-1", "-", "NIL" and nothing mean that there is no id.
    """
    ids = (_PREFIX.sub("", id.strip()).strip() for id in re.split(r"[|+]", field))
    return tuple(dict.fromkeys(id for id in ids if id not in _NONE))
