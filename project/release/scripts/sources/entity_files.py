"""Entities as JSON lines in scispaCy's schema, gzipped."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

from spacy_pel.kb import Entity
from spacy_pel.system.whole_files import whole_file

# Keys that scispaCy has in every line. The others stand where they say something.
_ALWAYS = {"concept_id", "canonical_name", "aliases", "types", "definition"}


def write_entities(output: Path, entities: Iterable[Entity]) -> str:
    """Writes a file that is there as a whole or not at all; returns what it holds."""
    number = names = 0
    with whole_file(output, "xb") as file:
        # Without a date or name inside, the same entities give the same bytes.
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as zipped:
            for entity in entities:
                zipped.write(_line(entity))
                number += 1
                names += len(entity.names)
    return f"{number:,} entities, {names:,} names"


def _line(entity: Entity) -> bytes:
    aliases = tuple(name for name in entity.aliases if name != entity.canonical_name)
    fields = entity._replace(aliases=aliases)._asdict()
    kept = {key: value for key, value in fields.items() if value or key in _ALWAYS}
    return (json.dumps(kept, ensure_ascii=False) + "\n").encode()
