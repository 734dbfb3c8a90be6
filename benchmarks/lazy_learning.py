"""What learnt mentions gain: recall on dev with 0 to 100 % of the train documents as rows of the KB.

How much mentions count is fitted twice: to the learnt mentions themselves, and to one half of the
dev documents, with which the other half is then searched. Names alone decide at 0 %. Exact names
have no say here.

    python benchmarks/lazy_learning.py PIPELINE KB DEV TRAIN... --shares 0 0.01 0.05 0.25 1
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import spacy

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.records.mention_store import MentionPassage
from spacy_pel.kb.writing.mention_changes import learn_mentions, set_mention_weight
from spacy_pel.tasks.embedding.mention_rows import LinkerMentions
from spacy_pel.tasks.learn_mentions import PER_ENTITY, drawn, gold_passages
from spacy_pel.tasks.mention_weight import fitted_weight, queries_of_passages, queries_of_source

AT = (1, 5, 16, 64)


class Remembering(LinkerMentions):
    """Encodes each passage once, however many of its mentions are learnt."""

    def remember(self, passages: Sequence[MentionPassage]) -> None:
        self.vectors = {}
        for start in range(0, len(passages), 64):
            block = passages[start : start + 64]
            places = [(p.document, p.text, m) for p in block for m in p.mentions]
            self.vectors.update(zip(places, super().mention_vectors(block)))

    def mention_vectors(self, passages: Sequence[MentionPassage]) -> np.ndarray:
        return np.array([self.vectors[p.document, p.text, m] for p in passages for m in p.mentions])


def recall(kb: KnowledgeBase, dev: Sequence[MentionPassage], encoder: Remembering) -> np.ndarray:
    """Of each mention of dev, whether its entity is among the first 1, 5, 16, 64: bool [n, 4]."""
    golds = np.array([kb.number(m.id) for passage in dev for m in passage.mentions])
    found = kb.search(encoder.mention_vectors(dev), max(AT)).numbers == golds[:, None]
    return np.stack([found[:, :k].any(axis=1) for k in AT], axis=1)


def cross_fitted(folder: Path, dev: Sequence[MentionPassage], encoder: Remembering) -> np.ndarray:
    """``recall``, where each half is searched with what was fitted to the other."""
    halves = [dev[0::2], dev[1::2]]
    right = []
    for own, other in (halves, halves[::-1]):
        with KnowledgeBase.open(folder) as kb:
            weight = fitted_weight(kb, [queries_of_passages(kb, encoder, other)])
        set_mention_weight(folder, weight or kb.mentions.weight)
        with KnowledgeBase.open(folder) as kb:
            right.append(recall(kb, own, encoder))
    return np.concatenate(right)


def line(share: float, rows: int, fit: str, right: np.ndarray, rate: float, size: float) -> None:
    figures = " | ".join(f"{100 * x:.1f}" for x in right.mean(axis=0))
    print(f"| {share:.0%} | {rows:,} | {fit} | {figures} | {rate:,.0f} | {size:.1f} |", flush=True)


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.iterdir()) / 1e6


def measure(
    folder: Path,
    share: float,
    train: Sequence[Sequence[MentionPassage]],
    dev: Sequence[MentionPassage],
    encoder: Remembering,
    per_entity: int,
) -> None:
    """The lines of one share."""
    rows = 0
    for place, passages in enumerate(train):
        documents = list(dict.fromkeys(passage.document for passage in passages))
        order = np.random.default_rng(0).permutation(len(documents))
        kept = {documents[i] for i in order[: round(share * len(documents))]}
        some = drawn([p for p in passages if p.document in kept], per_entity)
        if any(passage.mentions for passage in some):
            rows += learn_mentions(folder, f"train{place}", some, encoder)
    size = megabytes(folder)
    with KnowledgeBase.open(folder) as kb:
        sources = [segment.source for segment in kb.mentions.segments]
        weight = fitted_weight(kb, [queries_of_source(kb, s) for s in sources]) if rows else None
    if weight:
        set_mention_weight(folder, weight)
    with KnowledgeBase.open(folder) as kb:
        recall(kb, dev[:4], encoder)  # opens the files
        start = time.process_time()
        right = recall(kb, dev, encoder)
        rate = len(right) / (time.process_time() - start)
    line(share, rows, "learnt" if rows else "-", right, rate, size)
    if rows:
        line(share, rows, "dev", cross_fitted(folder, dev, encoder), rate, size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipeline")
    parser.add_argument("kb", type=Path)
    parser.add_argument("dev")
    parser.add_argument("train", nargs="+")
    parser.add_argument("--shares", type=float, nargs="+", default=[0, 0.01, 0.05, 0.25, 1])
    parser.add_argument("--per-entity", type=int, default=PER_ENTITY)
    given = parser.parse_args()
    nlp = spacy.load(given.pipeline)
    encoder = Remembering(nlp.get_pipe("proxy_linker"), nlp)
    with KnowledgeBase.open(given.kb) as kb:
        dev, *train = [
            list(gold_passages(open_corpus(name)(nlp), kb, None, True))
            for name in (given.dev, *given.train)
        ]
    start = time.process_time()
    encoder.remember([passage for passages in (dev, *train) for passage in passages])
    spent = time.process_time() - start
    print(f"{len(encoder.vectors) / spent:,.0f} mentions encoded a second of CPU time\n")
    print("| train documents | rows | fitted to | @1 | @5 | @16 | @64 | searches a second | MB |")
    print("|---:|---:|---|---:|---:|---:|---:|---:|---:|")
    for share in given.shares:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(shutil.copytree(given.kb, Path(folder) / "kb"))
            measure(copy, share, train, dev, encoder, given.per_entity)


if __name__ == "__main__":
    main()
