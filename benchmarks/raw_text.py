"""Entities found in raw text, with and without scispaCy's linker: a table for each corpus.

    python benchmarks/raw_text.py PIPELINE CORPUS... [--scispacy PYTHON --index INDEX] [--nil-threshold SCORE]

The pipeline finds the mentions and links them. With PYTHON, an environment with scispaCy, its linker
links the mentions of the same "ner", with scispaCy's AbbreviationDetector before it. INDEX is scispaCy's
index of the same KB (``benchmarks/speed/run.py`` builds one).

- Strict: a mention is right if its offsets are those of a gold mention, and its id is one of that
  mention's. A gold mention whose ids the KB lacks is NIL, and only NIL is right for it.
- Documents: the distinct ids of a document, whatever their mentions. A gold id that the KB lacks is a
  miss.

Mentions whose label the corpus does not annotate are left out: NCBI disease has no chemicals.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import typer
from speed.run import write_entities

from spacy_pel import KnowledgeBase
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.documents.document import Document
from spacy_pel.evaluation.linking_metrics import concept_scores, markdown_table
from spacy_pel.pipeline.pipelines import linker_of, load_pipeline
from spacy_pel.spans import NIL

HERE = Path(__file__).parent
# The label of each kind of mention in NCBI disease.
NCBI = ("SpecificDisease", "DiseaseClass", "Modifier", "CompositeMention")
HEADER = ["", "spans F1", "strict P", "strict R", "strict F1", "documents P", "R", "F1"]


class Found(NamedTuple):
    """A mention that a pipeline found; ``id`` is "" for NIL."""

    start: int
    end: int
    label: str
    id: str


def main(
    pipeline: str,
    corpus: list[Path],
    scispacy: Path | None = None,
    index: Path | None = None,
    nil_threshold: float | None = None,
) -> None:
    """Print how well PIPELINE finds and links the mentions of each CORPUS."""
    nlp = load_pipeline(pipeline)
    linker = linker_of(nlp)
    kb = linker.kb
    if nil_threshold is not None:
        linker.nil_threshold = nil_threshold
    for path in corpus:
        documents = list(open_corpus(path).documents())
        texts = [document.text for document in documents]
        found = [
            [Found(e.start_char, e.end_char, e.label_, e.kb_id_.replace(NIL, "")) for e in doc.ents]
            for doc in nlp.pipe(texts)
        ]
        rows = [[pipeline, *_percents(scores(kb, documents, found))]]
        if scispacy and index:
            theirs = _of_scispacy(scispacy, index, str(nlp.path), kb, texts)
            rows.append(["the same ner, scispaCy", *_percents(scores(kb, documents, theirs))])
        print(f"\n{path}: {len(documents)} documents\n\n{markdown_table(HEADER, rows)}", flush=True)


def scores(
    kb: KnowledgeBase, documents: Iterable[Document], found: Iterable[list[Found]]
) -> list[float]:
    """The figures of a line, from 0 to 1."""
    n_gold = n_found = spans_right = right = 0
    of_documents = []
    for document, mentions in zip(documents, found, strict=True):
        gold = {(m.start, m.end): (_label(m.label), m.ids) for m in document.mentions or ()}
        labels = {"Disease"} if _is_ncbi(document) else {"Disease", "Chemical"}
        mentions = [mention for mention in mentions if mention.label in labels]
        n_gold, n_found = n_gold + len(gold), n_found + len(mentions)
        for mention in mentions:
            label, ids = gold.get((mention.start, mention.end), ("", ()))
            spans_right += label == mention.label
            right += label == mention.label and mention.id in (set(_concepts(kb, ids)) or {""})
        wanted = [c for _, ids in gold.values() for i in ids for c in _concepts(kb, [i]) or [i]]
        of_documents.append((wanted, [m.id for m in mentions if m.id]))
    strict = right / n_found, right / n_gold, 2 * right / (n_gold + n_found)
    return [2 * spans_right / (n_gold + n_found), *strict, *concept_scores(of_documents).values()]


def _concepts(kb: KnowledgeBase, ids: Iterable[str]) -> list[str]:
    """The concept ids of those of the ids that the KB has."""
    numbers = [number for number in map(kb.number, ids) if number is not None]
    return [concept_id for concept_id, _ in kb.labels(numbers)]


def _label(label: str) -> str:
    return "Disease" if label in NCBI else label


def _is_ncbi(document: Document) -> bool:
    return any(mention.label in NCBI for mention in document.mentions or ())


def _percents(figures: Iterable[float]) -> list[str]:
    return [f"{100 * figure:.1f}" for figure in figures]


def _of_scispacy(
    python: Path, index: Path, pipeline: str, kb: KnowledgeBase, texts: list[str]
) -> list[list[Found]]:
    """What scispaCy's linker says of the mentions of the same recogniser."""
    with tempfile.TemporaryDirectory() as folder:
        entities, asked, answered = (Path(folder) / n for n in ("kb.jsonl", "texts", "found"))
        write_entities(kb, entities)
        asked.write_text(json.dumps(texts), encoding="utf8")
        worker = [str(python), str(HERE / "raw_text_scispacy.py"), pipeline]
        environment = {**os.environ, "PYTHONPATH": str(HERE)}
        subprocess.run(
            [*worker, str(entities), str(index), str(asked), str(answered)],
            env=environment,
            check=True,
        )
        return [[Found(*m) for m in doc] for doc in json.loads(answered.read_text("utf8"))]


if __name__ == "__main__":
    typer.run(main)
