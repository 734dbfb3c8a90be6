"""Compare scispaCy's candidates for gold mentions with those of a pipeline, with a table for each corpus.

    python benchmarks/scispacy_recall.py KB CORPUS... [--train CORPUS]... [--pipeline PIPELINE]...

Prints recall@k over the mentions whose entity is in the KB, as ``pel evaluate`` counts it, and
recall@1 for entities that the training corpora mention (seen) and for the others (unseen). The KB
must have the vectors of each pipeline. A pipeline with a reranker has a line with it and one without.

This measures scispaCy's method, not its code: TF-IDF over character trigrams within words (min_df 10)
and the cosine to every name of the KB. scispaCy searches an approximate index; the search here is
exact, which favours it. If entities tie, the gold one counts by the share of the orders in which it
is among the first k. Mentions are counted with their own words, and with long forms in place of the
acronyms that their document defines, as this project's linker reads them. The script needs
scikit-learn, which scispaCy installs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import typer
from sklearn.feature_extraction.text import TfidfVectorizer

from spacy_pel import KnowledgeBase
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.evaluation.evaluate import evaluate
from spacy_pel.metrics.linking import markdown_table
from spacy_pel.pipeline.pipelines import linker_of, load_pipeline
from spacy_pel.text.abbreviations import defined_abbreviations, expanded

KS = (1, 5, 16, 64)
CHUNK = 200


def main(kb: Path, corpus: list[Path], train: list[Path] = [], pipeline: list[Path] = []) -> None:
    """Print recall over the mentions of each CORPUS (PubTator) whose entity is in KB."""
    base = KnowledgeBase.open(kb)
    trained = {
        gold for path in train for _, _, golds in gold_mentions(base, path) for gold in golds
    }
    dictionary = Dictionary(base)
    header = ["", *(f"@{k}" for k in KS), "seen, @1", "unseen, @1", "mentions/s"]
    for path in corpus:
        texts, long_forms, golds = zip(*gold_mentions(base, path))
        unseen = np.array([trained.isdisjoint(right) for right in golds])
        rows = []
        for title, words in (("as they are", texts), ("acronyms read", long_forms)):
            hits = np.array(dictionary.hits(words, golds))
            parts = [hits[which, 0] if trained else [] for which in (~unseen, unseen)]
            figures = [*hits.mean(axis=0), *(np.mean(p) if len(p) else None for p in parts)]
            rows.append([f"scispaCy's TF-IDF, {title}", *map(percent, figures), ""])
        rows += [row for each in pipeline for row in _rows_of(each, kb, path)]
        known = f", {unseen.sum()} of unseen entities" if trained else ""
        print(f"\n{path}: {len(texts)} mentions in the KB{known}\n")
        print(markdown_table(header, rows), flush=True)


def _rows_of(pipeline: Path, kb: Path, corpus: Path) -> Iterator[list[str]]:
    """Return the lines of a pipeline, without and, if it has one, with its reranker."""
    nlp = load_pipeline(pipeline)
    linker = linker_of(nlp, kb=kb)
    for depth in dict.fromkeys((0, linker.reranked)):
        linker.search.rerank = depth
        found = evaluate(nlp, [corpus])
        figures = [found[f"recall@{k}"]["in_kb"] for k in KS]
        figures += [found["recall@1"][which] for which in ("seen", "unseen")]
        name = f"{pipeline}, {depth} reranked" if depth else str(pipeline)
        yield [name, *map(percent, figures), f"{found['mentions_per_second']:.0f}"]


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


class Dictionary:
    """scispaCy's search for candidates: the names of a KB by character trigrams."""

    def __init__(self, kb: KnowledgeBase):
        numbers = kb.numbers()
        records = zip(numbers.tolist(), kb.entities(numbers))
        names, owners = zip(*((name, number) for number, e in records for name in e.names))
        # As in scispacy.candidate_generation. The vectorizer lowers the case by default.
        self.vectorizer = TfidfVectorizer(
            analyzer="char_wb", ngram_range=(3, 3), min_df=10, dtype=np.float32
        )
        self.matrix = self.vectorizer.fit_transform(names).T.tocsr()
        self.owners = np.array(owners)

    def hits(self, words: Sequence[str], golds: Sequence[set[int]]) -> list[np.ndarray]:
        """Return for each mention and each k whether a gold entity is among the k best (see ``_hits``)."""
        found = []
        for first in range(0, len(words), CHUNK):
            chunk = slice(first, first + CHUNK)
            scores = (self.vectorizer.transform(words[chunk]) @ self.matrix).tocsr()
            rows = zip(scores, golds[chunk])
            found += [_hits(row, self.owners, right) for row, right in rows]
        return found


def gold_mentions(kb: KnowledgeBase, path: Path) -> Iterator[tuple[str, str, set[int]]]:
    """Return the words of each mention in the KB, the words with long forms, and the gold entities."""
    for document in open_corpus(path).documents():
        offsets = [(mention.start, mention.end) for mention in document.mentions]
        read = expanded(document.text, offsets, defined_abbreviations(document.text))
        for mention, context in zip(document.mentions, read):
            golds = {n for n in map(kb.number, mention.ids) if n is not None}
            if golds:
                yield mention.text, context.surface, golds


def _hits(row, owners: np.ndarray, golds: set) -> np.ndarray:
    """Return for each k the probability that a gold entity is among the k best, with ties shuffled."""
    found, values = owners[row.indices], np.round(row.data, 6)
    best = np.full(owners.max() + 1, -1.0)
    np.maximum.at(best, found, values)
    gold = max(best[list(golds)])
    if gold <= 0:
        return np.zeros(len(KS))
    above, tied = int((best > gold).sum()), int((best == gold).sum())
    return share_of_orders(above, tied, sum(best[g] == gold for g in golds))


def share_of_orders(above: int, tied: int, right: int) -> np.ndarray:
    """Return for each k the share of the orders in which a correct entity is among the k best.

    Args:
        above: The number of entities above the best correct one.
        tied: The number of entities with its score, including itself.
        right: The number of correct entities with its score.
    """
    return np.array([min(1.0, max(0, k - above) * right / tied) for k in KS])


if __name__ == "__main__":
    typer.run(main)
