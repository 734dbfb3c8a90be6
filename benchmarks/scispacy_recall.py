"""scispaCy's candidates for gold mentions, counted as ``pel evaluate`` counts.

    python benchmarks/scispacy_recall.py KB CORPUS... [--train CORPUS]...

What is measured is scispaCy's method: TF-IDF over character trigrams within words (min_df 10),
cosine to every name of the KB. Its nearest-neighbour index is approximate; here the search is
exact, which favours it. Where entities tie, the gold counts by the share of the orders in which it
comes in time. Mentions are counted twice: as they are, and with acronyms that their document
defines read as their long forms, as this project's linker reads them. With training corpora those
are counted as well whose entities these do not mention. Needs scikit-learn, which scispaCy brings.
"""

from pathlib import Path
from typing import Iterator, List, Sequence, Set, Tuple

import numpy as np
import typer
from sklearn.feature_extraction.text import TfidfVectorizer

from spacy_pel import KnowledgeBase
from spacy_pel.acronyms import defined_acronyms, expanded
from spacy_pel.training.pubtator import read_pubtator

KS = (1, 5, 16, 64)
CHUNK = 200


def main(kb: Path, corpus: List[Path], train: List[Path] = []) -> None:
    """Print recall@k over the mentions of each CORPUS (PubTator) whose gold is in KB."""
    base = KnowledgeBase.open(kb)
    trained = {gold for path in train for _, _, golds in _gold(base, path) for gold in golds}
    numbers = base.numbers()
    records = zip(numbers.tolist(), base.entities(numbers))
    names, owners = zip(*((name, number) for number, e in records for name in e.names))
    # As in scispacy.candidate_generation: lower case is the vectorizer's own default.
    vectorizer = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(3, 3), min_df=10, dtype=np.float32
    )
    matrix = vectorizer.fit_transform(names).T.tocsr()
    for path in corpus:
        texts, long_forms, golds = zip(*_gold(base, path))
        unseen = np.array([trained.isdisjoint(right) for right in golds])
        for title, words in (("as they are", texts), ("acronyms read", long_forms)):
            hits = []
            for first in range(0, len(words), CHUNK):
                chunk = slice(first, first + CHUNK)
                scores = (vectorizer.transform(words[chunk]) @ matrix).tocsr()
                rows = zip(scores, golds[chunk])
                hits += [_hits(row, np.array(owners), right) for row, right in rows]
            print(f"{path}: {len(words)} mentions in the KB, {title}; {_figures(hits)}")
            if trained:
                print(f"    {unseen.sum()} of unseen entities; {_figures(np.array(hits)[unseen])}")


def _figures(hits: Sequence[np.ndarray]) -> str:
    return "recall " + "  ".join(f"@{k} {100 * h:.1f}" for k, h in zip(KS, np.mean(hits, axis=0)))


def _gold(kb: KnowledgeBase, path: Path) -> Iterator[Tuple[str, str, Set[int]]]:
    """Of each mention in the KB: its words, the same with acronyms read, its entities."""
    for document in read_pubtator(path):
        offsets = [(mention.start, mention.end) for mention in document.mentions]
        read = expanded(document.text, offsets, defined_acronyms(document.text))
        for mention, (text, start, end) in zip(document.mentions, read):
            golds = {n for n in map(kb.number, mention.ids) if n is not None}
            if golds:
                yield mention.text, text[start:end], golds


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
