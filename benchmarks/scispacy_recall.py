"""scispaCy's candidates for gold mentions, counted as ``pel evaluate`` counts.

    python benchmarks/scispacy_recall.py KB CORPUS...

What is measured is scispaCy's method: TF-IDF over character trigrams within words (min_df 10),
cosine to every name of the KB. Its nearest-neighbour index is approximate; here the search is
exact, which favours it. Where entities tie, the gold counts by the share of the orders in which it
comes in time. Needs scikit-learn, which scispaCy brings.
"""

from pathlib import Path
from typing import List

import numpy as np
import typer
from sklearn.feature_extraction.text import TfidfVectorizer

from spacy_pel import KnowledgeBase
from spacy_pel.training.pubtator import read_pubtator

KS = (1, 5, 16, 64)
CHUNK = 200


def main(kb: Path, corpus: List[Path]) -> None:
    """Print recall@k over the mentions of each CORPUS (PubTator) whose gold is in KB."""
    base = KnowledgeBase.open(kb)
    numbers = base.numbers()
    records = zip(numbers.tolist(), base.entities(numbers))
    names, owners = zip(*((name, number) for number, e in records for name in e.names))
    # As in scispacy.candidate_generation: lower case is the vectorizer's own default.
    vectorizer = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(3, 3), min_df=10, dtype=np.float32
    )
    matrix = vectorizer.fit_transform(names).T.tocsr()
    for path in corpus:
        mentions = list(_gold(base, path))
        hits = np.zeros(len(KS))
        for first in range(0, len(mentions), CHUNK):
            chunk = mentions[first : first + CHUNK]
            scores = (vectorizer.transform([text for text, _ in chunk]) @ matrix).tocsr()
            for row, (_, golds) in zip(scores, chunk):
                hits += _hits(row, np.array(owners), golds)
        figures = "  ".join(f"@{k} {100 * h / len(mentions):.1f}" for k, h in zip(KS, hits))
        print(f"{path}: {len(mentions)} mentions in the KB; recall {figures}")


def _gold(kb: KnowledgeBase, path: Path):
    for document in read_pubtator(path):
        for mention in document.mentions:
            golds = {n for n in map(kb.number, mention.ids) if n is not None}
            if golds:
                yield mention.text, golds


def _hits(row, owners: np.ndarray, golds: set) -> np.ndarray:
    """For each k the probability that a gold is among the k best entities, ties in random order."""
    found, values = owners[row.indices], np.round(row.data, 6)
    best = np.full(owners.max() + 1, -1.0)
    np.maximum.at(best, found, values)
    gold = max(best[list(golds)])
    if gold <= 0:
        return np.zeros(len(KS))
    above, tied = int((best > gold).sum()), int((best == gold).sum())
    right = sum(best[g] == gold for g in golds)
    return np.array([min(1.0, max(0, k - above) * right / tied) for k in KS])


if __name__ == "__main__":
    typer.run(main)
