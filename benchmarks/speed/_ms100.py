"""Measure scispaCy's candidate generator and linker; ``run.py`` runs it with scispaCy's Python.

python measure_scispacy.py index     KB.jsonl INDEX     builds the index as scispaCy does
python measure_scispacy.py generator KB.jsonl INDEX DOCUMENTS.json
python measure_scispacy.py linker    KB.jsonl INDEX DOCUMENTS.json
"""

from __future__ import annotations

from protocol import Document, doc_of, report  # first: the clock starts here

# isort: split
import json
import os
import sys
from pathlib import Path
from typing import Any

import joblib
import nmslib
import scipy.sparse
import spacy
from scispacy import candidate_generation
from scispacy.candidate_generation import CandidateGenerator, LinkerPaths
from scispacy.linking import EntityLinker
from scispacy.linking_utils import KnowledgeBase


class QuickerNmslib:
    """nmslib as scispaCy uses it, but with an index that is built faster.

    ``efConstruction`` is 400 in place of 2000, which takes hours. The number of links of a name and
    the settings of searches are scispaCy's.
    """

    DataType = nmslib.DataType

    def __init__(self, index: Any) -> None:
        self.index = index

    @classmethod
    def init(cls, **settings: Any) -> QuickerNmslib:
        return cls(nmslib.init(**settings))

    def createIndex(self, settings: dict[str, Any], print_progress: bool) -> None:
        self.index.createIndex({**settings, "efConstruction": 100}, print_progress=print_progress)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.index, name)


def build(kb: str, index: str) -> None:
    """Write the files that scispaCy downloads.

    scispaCy itself cannot write them with today's scipy, which has no sparse float16.
    """
    candidate_generation.scipy_supports_sparse_float16 = lambda: True
    candidate_generation.nmslib = QuickerNmslib
    aliases, vectorizer, nearest = candidate_generation.create_tfidf_ann_index(
        None, KnowledgeBase(kb)
    )
    Path(index).mkdir(parents=True, exist_ok=True)
    paths = LinkerPaths.from_directory(index)
    joblib.dump(vectorizer, paths.tfidf_vectorizer)
    Path(paths.concept_aliases_list).write_text(json.dumps(aliases), encoding="utf8")
    scipy.sparse.save_npz(paths.tfidf_vectors, vectorizer.transform(aliases))
    nearest.saveIndex(str(paths.ann_index))


def opened(kb: str, index: str) -> CandidateGenerator:
    aliases, vectorizer, nearest = LinkerPaths.from_directory(index).load()
    return CandidateGenerator(nearest, vectorizer, aliases, KnowledgeBase(kb))


def measure_generator(kb: str, index: str, documents: str) -> None:
    """Measure the generator: all mentions in one call, with scispaCy's default number of neighbours."""
    generator = opened(kb, index)

    def link(batch: list[Document]) -> list[list[str]]:
        mentions = [d.text[a:b] for d in batch for a, b in d.mentions]
        # In the linker's order: by the similarity of the most similar name.
        ranked = (sorted(c, key=lambda c: -max(c.similarities)) for c in generator(mentions, 30))
        return [[candidate.concept_id for candidate in candidates] for candidates in ranked]

    report(documents, link)


def measure_linker(kb: str, index: str, documents: str) -> None:
    """Measure the pipeline component with its defaults.

    Only the filter for definitions is off: it would remove the entities that have none.
    """
    vocab = spacy.blank("en").vocab
    linker = EntityLinker(candidate_generator=opened(kb, index), filter_for_definitions=False)

    def link(batch: list[Document]) -> list[list[str]]:
        docs = [linker(doc_of(vocab, document)) for document in batch]
        return [[id for id, _ in mention._.kb_ents] for doc in docs for mention in doc.ents]

    report(documents, link)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    {"index": build, "generator": measure_generator, "linker": measure_linker}[sys.argv[1]](
        *sys.argv[2:]
    )
