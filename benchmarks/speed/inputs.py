"""The documents, gold mentions and entities that every linker is measured on, as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import spacy

from spacy_pel import KnowledgeBase
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.spans import gold_ids, mention_spans


def write_documents(kb: KnowledgeBase, corpus: Path, limit: int, out: Path) -> None:
    """Write the first ``limit`` documents of a corpus, or all if it is 0.

    A document has its text, its mentions as [start, end], and for each the gold ids that the KB has.
    """
    documents = []
    for example in open_corpus(corpus, limit=limit)(spacy.blank("en")):
        spans = mention_spans(example.reference, None)
        if spans:
            golds = [[id for id in gold_ids(span) if kb.number(id) is not None] for span in spans]
            ids = [sorted({kb[id].concept_id for id in gold}) for gold in golds]
            mentions = [[span.start_char, span.end_char] for span in spans]
            documents.append({"text": example.text, "mentions": mentions, "golds": ids})
    out.write_text(json.dumps(documents), encoding="utf8")


def write_entities(kb: KnowledgeBase, out: Path) -> None:
    """Write the KB in scispaCy's schema, one line for each entity."""
    with out.open("w", encoding="utf8") as file:
        for entity in kb:
            record: dict[str, Any] = {
                "concept_id": entity.concept_id,
                "canonical_name": entity.canonical_name,
                "aliases": list(entity.aliases),
                "types": [],
                "definition": entity.definition,
            }
            file.write(json.dumps(record) + "\n")
