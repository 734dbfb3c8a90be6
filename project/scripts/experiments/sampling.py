"""A sample of a large knowledge base, for experiments that compare many trainings."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable
from pathlib import Path

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.system.whole_files import whole_file


def write_sample(source: Path, corpora: Iterable[Path], others: int, output: Path) -> None:
    """Write the entities that the corpora mention, and others drawn at random, as JSONL.

    The same arguments write the same file, in the order of the source.

    Args:
        source: The JSONL file of the knowledge base; it may be gzipped.
        corpora: Corpora with ids, as ``open_corpus`` names them.
        others: The number of other entities.
        output: The JSONL file to write.
    """
    golds = {
        id
        for path in corpora
        for document in open_corpus(path).documents()
        for mention in document.mentions
        for id in mention.ids
    }
    with (gzip.open if source.suffix == ".gz" else open)(source, "rt", encoding="utf8") as file:
        lines = [line for line in file if line.strip()]
    entities = [json.loads(line) for line in lines]
    named = [
        not golds.isdisjoint((entity["concept_id"], *entity.get("alt_ids", ())))
        for entity in entities
    ]
    rest = [number for number, is_named in enumerate(named) if not is_named]
    drawn = set(random.Random(0).sample(rest, min(others, len(rest))))
    with whole_file(output) as file:
        file.writelines(
            line for number, line in enumerate(lines) if named[number] or number in drawn
        )
