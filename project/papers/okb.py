"""Makes a data set of mentions whose entities the knowledge base lacks (PEL, appendix D).

python -m papers.okb kb/umls okb --types paper --train train.pubtator.gz --dev dev.pubtator.gz
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from scipy.sparse import csr_array

from spacy_pel.corpora.document_corpus import Corpus, open_corpus
from spacy_pel.documents.document import Document
from spacy_pel.documents.pubtator import pubtator_text
from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase, build_kb
from spacy_pel.kb.records.semantic_types import with_descendants
from spacy_pel.system.whole_files import whole_folder

TRAIN = "train"
PAPER = "paper"
ORDERS = 20  # the largest number of random orders that are tried
# The eleven types of the paper's data set from MedMentions (the paper names one of them twice). Types
# below them are left out: the paper names "Health Care Activity" and two of the three types below it.
PAPER_TYPES = (
    *("Mental Process", "Health Care Related Organization", "Element, Ion, or Isotope"),
    *("Medical Device", "Health Care Activity", "Diagnostic Procedure"),
    *("Professional or Occupational Group", "Laboratory Procedure", "Regulation or Law"),
    *("Organization", "Professional Society"),
)
# Of each mention with an entity in the KB: the concept ids of its entities, and its words in lower case.
Mentions = list[tuple[tuple[str, ...], str]]


def build_okb(
    kb: KnowledgeBase,
    splits: Mapping[str, Sequence[str | Path]],
    out: Path,
    types: Sequence[str],
    *,
    tolerance: float = 0.02,
    seed: int = 0,
) -> dict[str, Any]:
    """Write a KB without the entities of chosen types, and corpora in which they are NIL.

    The folder gets ``kb`` (without vectors), ``<split>.pubtator`` and ``report.json``. Mentions lose
    the ids that were taken out of the KB. A mention is NIL if none of its other ids is in the KB. An
    existing data set is replaced. After an error or an interruption, the folder is as it was.

    ``splits`` has the corpora of "train" and of at least one other split. The report, which is returned,
    has for each split ``statistics`` of the mentions that become NIL ("okb"), and of all that had an
    entity in the KB before ("whole").

    Raises:
        PelError: ``out`` holds something else, the KB has no such types, no mention is of the types,
            or a corpus is missing or faulty.
    """
    if not splits.get(TRAIN) or len(splits) < 2:
        raise PelError("a train split and another one are needed", "give both")
    if out.exists() and not ((out / "report.json").is_file() and (out / "kb").is_dir()):
        raise PelError(f"{out}: exists, and is no such data set", "choose a new folder")
    opened = {split: [open_corpus(name) for name in names] for split, names in splits.items()}
    of_types = entities_of_types(kb, types)
    mentions = {split: mentions_of(kb, corpora) for split, corpora in opened.items()}
    if not any(mentions.values()):
        remedy = "give a KB that uses the same identifiers"
        raise PelError("none of the corpora's ids is in the KB", remedy)
    train = mentions[TRAIN]
    others = [own for split, own in mentions.items() if split != TRAIN]
    taken = of_types - kept_in_line(train, others, of_types, tolerance=tolerance, seed=seed)
    nil = {split: nil_of(own, taken) for split, own in mentions.items()}
    if not any(nil.values()):
        raise PelError(f"no mention is of {', '.join(types)}", "choose other types")
    report = {
        "kb": str(kb.path),
        "types": list(types),
        "tolerance": tolerance,
        "seed": seed,
        "entities": {"of_types": len(of_types), "taken_out": len(taken)},
        "splits": {
            split: {
                "okb": statistics(nil[split], train, nil[TRAIN]),
                "whole": statistics(own, train, train),
            }
            for split, own in mentions.items()
        },
    }
    with whole_folder(out) as folder:
        for split, corpora in opened.items():
            with open(folder / f"{split}.pubtator", "w", encoding="utf8", newline="\n") as file:
                for document in documents_of(corpora):
                    file.write(pubtator_text(_without(document, kb, taken)))
        entities = (entity for entity in kb if entity.concept_id not in taken)
        source = f"{kb.path} without {', '.join(types)}"
        build_kb(entities, folder / "kb", types=kb.semantic_types, sources=[source]).close()
        (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf8")
    return report


def entities_of_types(kb: KnowledgeBase, types: Sequence[str]) -> set[str]:
    """The concept ids of all entities of some types; PelError for an unknown one, or if there is none.

    A type is the name or code of a semantic type, for it and the types below it; or "paper".
    """
    names: set[str] = set()
    for text in types:
        known = any(text in (type.name, type.code) for type in kb.semantic_types)
        if text != PAPER and not known:
            remedy = "give a type as python -m spacy pel kb info lists them"
            raise PelError(f"{kb.path}: {text!r} is no semantic type in it", remedy)
        names |= set(PAPER_TYPES) if text == PAPER else with_descendants([text], kb.semantic_types)
    found = {entity.concept_id for entity in kb if not names.isdisjoint(entity.types)}
    if not found:
        raise PelError(f"{kb.path}: no entity is of {', '.join(types)}", "choose other types")
    return found


def documents_of(corpora: Iterable[Corpus]) -> Iterator[Document]:
    for corpus in corpora:
        yield from corpus.documents()


def mentions_of(kb: KnowledgeBase, corpora: Iterable[Corpus]) -> Mentions:
    """The mentions of a split that have an entity in the KB."""
    found = []
    for document in documents_of(corpora):
        resolved = _resolved(kb, document)
        for mention in document.mentions:
            entities = tuple(dict.fromkeys(resolved[id] for id in mention.ids if id in resolved))
            if entities:
                found.append((entities, " ".join(mention.text.lower().split())))
    return found


def nil_of(mentions: Mentions, taken: set[str]) -> Mentions:
    """The mentions that become NIL if these entities are taken out."""
    return [mention for mention in mentions if taken.issuperset(mention[0])]


def entities_in(mentions: Iterable[tuple[tuple[str, ...], str]]) -> set[str]:
    return {entity for entities, _ in mentions for entity in entities}


def _resolved(kb: KnowledgeBase, document: Document) -> dict[str, str]:
    """The concept id of each id of a document, without ids that the KB lacks."""
    ids = sorted({id for mention in document.mentions for id in mention.ids})
    numbers = {id: number for id in ids if (number := kb.number(id)) is not None}
    return {id: label[0] for id, label in zip(numbers, kb.labels(list(numbers.values())))}


def _without(document: Document, kb: KnowledgeBase, taken: Collection[str]) -> Document:
    """The document, with those ids of its mentions that are left.

    Where a mention loses an id, and the KB has none of those that are left, it loses these as well.
    """
    resolved = _resolved(kb, document)
    mentions = []
    for mention in document.mentions:
        left = tuple(id for id in mention.ids if resolved.get(id) not in taken)
        if len(left) < len(mention.ids) and not any(id in resolved for id in left):
            left = ()
        mentions.append(mention._replace(ids=left))
    return document._replace(mentions=tuple(mentions))


def kept_in_line(
    train: Mentions, others: Sequence[Mentions], of_types: set[str], *, tolerance: float, seed: int
) -> set[str]:
    """Choose the entities of the types that stay in the KB.

    If all of them are taken out, the shares of NIL mentions and NIL entities that are seen in train
    may differ from the shares of the whole split. As long as one differs by more than the tolerance
    (from 0 to 1), entities are put back in random order, each if it brings the shares closer. A split
    keeps at least one NIL mention. If an order ends before all shares are close, further orders are
    tried, and the one that comes closest is taken.
    """
    in_train = entities_in(train)
    entities = sorted(entities_in(itertools.chain(*(nil_of(own, of_types) for own in others))))
    column = {entity: n for n, entity in enumerate(entities)}
    is_seen = np.array([entity in in_train for entity in entities], dtype=bool)
    parts = []  # of each split how many NIL mentions name the same, what they name, the shares wanted
    for own in others:
        if kinds := Counter(named for named, _ in nil_of(own, of_types)):
            rows, columns = zip(*((n, column[e]) for n, kind in enumerate(kinds) for e in kind))
            shape = (len(kinds), len(entities))
            names = csr_array((np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=shape)
            whole = statistics(own, train, train)
            wanted = np.array([whole["mentions_seen"], whole["entities_seen"]])
            parts.append((np.array(list(kinds.values())), names, csr_array(names.T), wanted))

    def distance(stays: np.ndarray) -> float:
        """By how much the shares differ beyond the tolerance; infinite if a split has no NIL left."""
        beyond = 0.0
        for counts, names, named_by, wanted in parts:
            is_nil = names @ stays == 0
            if not is_nil.any():
                return np.inf
            seen = counts[is_nil & (names @ is_seen > 0)].sum() / counts[is_nil].sum()
            shares = np.array([seen, is_seen[named_by @ is_nil > 0].mean()])
            beyond += float(np.maximum(np.abs(shares - wanted) - tolerance, 0).sum())
        return beyond

    rng = np.random.default_rng(seed)
    best, kept = np.inf, np.zeros(len(entities), dtype=np.int64)
    for _ in range(ORDERS):
        stays = np.zeros(len(entities), dtype=np.int64)
        left, before = distance(stays), np.inf
        order = rng.permutation(len(entities))
        while 0 < left < before:  # an entity that did not help may help beside others
            before = left
            for entity in order[stays[order] == 0]:
                stays[entity] = 1
                closer = distance(stays)
                if closer < left:
                    left = closer
                else:
                    stays[entity] = 0
                if not left:
                    break
        if left < best:
            best, kept = left, stays
        if not best:
            break
    return {entities[n] for n in np.flatnonzero(kept)}


def statistics(mentions: Mentions, train: Mentions, like: Mentions) -> dict[str, Any]:
    """The counts of the paper's Table 7, and what is seen in train, from 0 to 1 or None of nothing.

    train: all mentions of the train split. like: those of them whose surface forms are compared.
    """
    in_train, forms_in_train = entities_in(train), {form for _, form in like}
    entities, forms = entities_in(mentions), {form for _, form in mentions}
    return {
        "mentions": len(mentions),
        "entities": len(entities),
        "entities_seen": _share([entity in in_train for entity in entities]),
        "mentions_seen": _share([not in_train.isdisjoint(named) for named, _ in mentions]),
        "forms_seen": _share([form in forms_in_train for form in forms]),
    }


def _share(are: list[bool]) -> float | None:
    return sum(are) / len(are) if are else None


Corpora = typer.Option(help="File whose mentions have ids, or FOLDER:SPLIT; may be repeated")
Types = typer.Option(help='Semantic type, by name or code, with those below it; "paper": its types')


def main(
    kb: Annotated[Path, typer.Argument(metavar="KB", help="Folder of a KB")],
    out: Annotated[Path, typer.Argument(help="Folder to make")],
    types: Annotated[list[str], Types],
    train: Annotated[list[str], Corpora],
    dev: Annotated[list[str] | None, Corpora] = None,
    test: Annotated[list[str] | None, Corpora] = None,
    tolerance: Annotated[float, typer.Option(help="Points by which the shares may differ")] = 2.0,
    seed: Annotated[int, typer.Option(help="Of the choice of entities that stay")] = 0,
) -> None:
    """Take the entities of chosen types out of the KB, so that their mentions become NIL.

    The share of entities and of mentions that are seen in train should be the same for NIL as for
    the whole split. If it differs by more than --tolerance, some entities of the types stay in the
    KB, chosen at random. With --tolerance 100 all of them are taken out.
    """
    given = {TRAIN: train, "dev": dev, "test": test}
    splits = {split: corpora for split, corpora in given.items() if corpora}
    opened = KnowledgeBase.open(kb)
    report = build_okb(opened, splits, out, types, tolerance=tolerance / 100, seed=seed)
    print(json.dumps(report, indent=2))
    print(f"To link to it, embed it: python -m spacy pel kb embed {out / 'kb'} PIPELINE")


if __name__ == "__main__":
    typer.run(main)
