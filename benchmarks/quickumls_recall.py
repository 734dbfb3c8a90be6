"""QuickUMLS' candidates for gold mentions: a table for each corpus, as ``scispacy_recall.py`` prints it.

    python benchmarks/quickumls_recall.py KB CORPUS...

The package itself is measured (``pip install quickumls``, 1.4.2), with its defaults: Jaccard similarity
of character trigrams, at least 0.7, windows of up to five words. Its index holds the lower-cased names
of the KB. It searches the words of each gold mention. Its answers stand as it orders them: matches by
similarity and length, and the entities of a match by similarity, preferred names first. If entities tie,
the gold one counts by the share of the orders in which it is among the first k.

QuickUMLS asks for a model of spaCy and stop words of NLTK, which it downloads. Here spaCy splits words
by rules, and all windows are searched, stop words too (``ignore_syntax``).
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import spacy
import typer
from quickumls import QuickUMLS
from quickumls.install import parse_and_encode_ngrams
from scispacy_recall import KS, gold_mentions, percent, share_of_orders

from spacy_pel import KnowledgeBase
from spacy_pel.evaluation.markdown_table import markdown_table

# What QuickUMLS reads of an installation. A language without stop words needs no download.
FLAGS = {"language.flag": "JPN", "database_backend.flag": "unqlite", "lowercase.flag": ""}


def main(kb: Path, corpus: list[Path]) -> None:
    """Print recall over the mentions of each CORPUS (PubTator) whose entity is in KB."""
    base = KnowledgeBase.open(kb)
    header = ["QuickUMLS", *(f"@{k}" for k in KS), "mentions/s"]
    with tempfile.TemporaryDirectory() as folder:
        matcher = installed(base, Path(folder))
        for path in corpus:
            words, long_forms, golds = zip(*gold_mentions(base, path))
            rows = []
            for title, texts in (("as they are", words), ("acronyms read", long_forms)):
                start = time.process_time()
                found = [candidates(matcher, text) for text in texts]
                rate = len(found) / (time.process_time() - start)
                shares = np.mean([recalled(*each) for each in zip(found, golds)], axis=0)
                rows.append([title, *map(percent, shares), f"{rate:,.0f}"])
            print(f"\n{path}: {len(golds)} mentions in the KB\n")
            print(markdown_table(header, rows), flush=True)


def installed(kb: KnowledgeBase, folder: Path) -> QuickUMLS:
    """QuickUMLS with the names of a KB; ids are the numbers of its entities."""
    for name, text in FLAGS.items():
        (folder / name).write_text(text)
    places = (str(folder / name) for name in ("umls-simstring.db", "cui-semtypes.db"))
    parse_and_encode_ngrams(_terms(kb), *places, FLAGS["database_backend.flag"])
    matcher = QuickUMLS(str(folder), accepted_semtypes=None, spacy_component=True)
    matcher.nlp = spacy.blank("en")
    return matcher


def _terms(kb: KnowledgeBase) -> Iterator[tuple[str, str, list[str], int]]:
    """Each name once an entity: lower-cased, its entity, its types, whether it is the preferred one."""
    numbers = kb.numbers()
    for number, entity in zip(numbers.tolist(), kb.entities(numbers)):
        names = dict.fromkeys(name.lower() for name in entity.names)
        for place, name in enumerate(names):
            yield name, str(number), list(entity.types), int(place == 0)


def candidates(matcher: QuickUMLS, mention: str) -> dict[int, tuple[float, ...]]:
    """The entities found in the words of a mention, each with what QuickUMLS orders them by."""
    scores: dict[int, tuple[float, ...]] = {}
    for group in matcher.match(mention, best_match=False, ignore_syntax=True):
        first = (group[0]["similarity"], group[0]["end"] - group[0]["start"])
        for match in group:
            score = (*first, match["similarity"] + match["preferred"])
            number = int(match["cui"])
            scores[number] = max(scores.get(number, score), score)
    return scores


def recalled(scores: dict[int, tuple[float, ...]], golds: set[int]) -> np.ndarray:
    """For each k the probability that a gold entity is among the k best, with ties shuffled."""
    best = max((scores[gold] for gold in golds if gold in scores), default=None)
    if best is None:
        return np.zeros(len(KS))
    above = sum(score > best for score in scores.values())
    tied = sum(score == best for score in scores.values())
    return share_of_orders(above, tied, sum(scores.get(gold) == best for gold in golds))


if __name__ == "__main__":
    typer.run(main)
