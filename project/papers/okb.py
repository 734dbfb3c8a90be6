"""Makes a data set of mentions whose entities the knowledge base lacks (PEL, appendix D).

python -m papers.okb kb/umls okb --types paper --train MedMentions/st21pv:train --dev MedMentions/st21pv:dev
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from scipy.sparse import csr_array

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.documents.document import Document
from spacy_pel.documents.pubtator import pubtator_text
from spacy_pel.errors import PelError
from spacy_pel.evaluation.linking_metrics import markdown_table
from spacy_pel.kb import KnowledgeBase, build_kb
from spacy_pel.kb.records.semantic_types import with_descendants
from spacy_pel.system.whole_files import whole_folder

TRAIN = "train"
PAPER = "paper"
# The eleven types of the paper's data set from MedMentions (the paper names one of them twice). Types
# below them are left out: the paper names "Health Care Activity" and two of the three types below it.
PAPER_TYPES = {
    "Mental Process": "T041",
    "Health Care Related Organization": "T093",
    "Element, Ion, or Isotope": "T196",
    "Medical Device": "T074",
    "Health Care Activity": "T058",
    "Diagnostic Procedure": "T060",
    "Professional or Occupational Group": "T097",
    "Laboratory Procedure": "T059",
    "Regulation or Law": "T089",
    "Organization": "T092",
    "Professional Society": "T094",
}
ORDERS = 20  # the largest number of random orders that are tried
# The shares of a split that are seen in train, and their names.
SHARES = {
    "entities_seen": "Entities seen in train",
    "mentions_seen": "Mentions of entities seen in train",
    "forms_seen": "Distinct surface forms that are in train",
}


class MentionKind(NamedTuple):
    """Mentions with the same entities and the same text are of one kind.

    Attributes:
        entities: The concept ids of the entities that the KB has, of those that the mention names.
        form: The text, in lower case and with single blanks.
    """

    entities: tuple[str, ...]
    form: str


class Census(NamedTuple):
    """The documents and mentions of a split, counted.

    Attributes:
        documents: The number of documents.
        mentions: The number of mentions.
        kinds: For each kind the number of its mentions; mentions without an entity in the KB are
            left out.
    """

    documents: int
    mentions: int
    kinds: Counter[MentionKind]

    @property
    def entities(self) -> set[str]:
        """The concept ids of all entities that are mentioned."""
        return {entity for kind in self.kinds for entity in kind.entities}

    def without(self, taken: Collection[str]) -> Counter[MentionKind]:
        """The kinds that become NIL if these entities are taken out."""
        kinds = {k: count for k, count in self.kinds.items() if all(e in taken for e in k.entities)}
        return Counter(kinds)


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

    The folder gets ``kb`` (without vectors), ``<split>.pubtator``, ``report.json``, and
    ``table.md`` with the same as tables. Mentions lose the ids that were taken out of the KB. A
    mention is NIL if none of its other ids is in the KB. After an error or an interruption, the
    folder is as it was.

    Args:
        kb: The KB.
        splits: For "train" and at least one other split the names of its corpora, as
            ``corpora.document_corpus.open_corpus`` takes them.
        out: The folder to make. An existing data set is replaced.
        types: What is taken out, see ``entities_of_types``.
        tolerance: See ``kept_in_line``.
        seed: See ``kept_in_line``.

    Returns:
        The report, see ``report_of``.

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
    censuses = {
        split: census_of(kb, (d for corpus in corpora for d in corpus.documents()))
        for split, corpora in opened.items()
    }
    others = [census for split, census in censuses.items() if split != TRAIN]
    kept = kept_in_line(censuses[TRAIN], others, of_types, tolerance=tolerance, seed=seed)
    taken = of_types - kept
    if not any(census.kinds for census in censuses.values()):
        raise PelError(
            "none of the corpora's ids is in the KB", "give a KB that uses the same identifiers"
        )
    if not any(census.without(taken) for census in censuses.values()):
        raise PelError(f"no mention is of {', '.join(types)}", "choose other types")
    report = report_of(kb, censuses, types, of_types, taken, tolerance=tolerance, seed=seed)
    with whole_folder(out) as folder:
        for split, corpora in opened.items():
            with open(folder / f"{split}.pubtator", "w", encoding="utf8", newline="\n") as file:
                for corpus in corpora:
                    for document in corpus.documents():
                        file.write(pubtator_text(_without(document, kb, taken)))
        entities = (entity for entity in kb if entity.concept_id not in taken)
        source = f"{kb.path} without {', '.join(types)}"
        build_kb(entities, folder / "kb", types=kb.semantic_types, sources=[source]).close()
        (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf8")
        (folder / "table.md").write_text(markdown(report), encoding="utf8")
    return report


def entities_of_types(kb: KnowledgeBase, types: Sequence[str]) -> set[str]:
    """The concept ids of all entities of some types.

    Args:
        kb: The KB.
        types: Each is one of the following. The name or code of a semantic type of the KB, such as
            "T058": the entities of it and of the types below it. "paper": the entities of
            PAPER_TYPES, without the types below them. The id or name of an entity, such as "Nervous
            System Diseases": this entity and all below it by their ``parents``, for example a branch
            of MeSH.

    Raises:
        PelError: A type is none of these, or no entity is of the types.
    """
    known = {text for type in kb.semantic_types for text in (type.name, type.code)}
    names: set[str] = set()
    roots: list[str] = []
    for text in types:
        if text == PAPER:
            names.update(PAPER_TYPES)
        elif text in known:
            names |= with_descendants([text], kb.semantic_types)
        elif text in kb:
            roots.append(kb[text].concept_id)
        else:
            named = [
                e.concept_id for e in kb.named(text) if e.canonical_name.lower() == text.lower()
            ]
            if len(named) != 1:
                raise PelError(
                    f"{kb.path}: {text!r} is no semantic type in it, and {len(named)} entities are "
                    "called so",
                    "give a type as python -m spacy pel kb info lists them, or the id of an entity",
                )
            roots += named
    found: set[str] = set()
    children: defaultdict[str, list[str]] = defaultdict(list)
    for entity in kb:
        if not names.isdisjoint(entity.types):
            found.add(entity.concept_id)
        for parent in entity.parents if roots else ():
            children[parent].append(entity.concept_id)
    below: set[str] = set()
    while roots:
        entity = roots.pop()
        if entity not in below:
            below.add(entity)
            roots += children[entity]
    if not found | below:
        raise PelError(f"{kb.path}: no entity is of {', '.join(types)}", "choose other types")
    return found | below


def census_of(kb: KnowledgeBase, documents: Iterable[Document]) -> Census:
    """Count the documents of a split and their mentions."""
    resolved: dict[str, str | None] = {}
    kinds: Counter[MentionKind] = Counter()
    n_documents = n_mentions = 0
    for document in documents:
        n_documents += 1
        n_mentions += len(document.mentions)
        new = {id for mention in document.mentions for id in mention.ids} - resolved.keys()
        resolved.update(dict.fromkeys(new) | _resolved(kb, new))
        for mention in document.mentions:
            entities = tuple(dict.fromkeys(filter(None, map(resolved.get, mention.ids))))
            if entities:
                kinds[MentionKind(entities, " ".join(mention.text.lower().split()))] += 1
    return Census(n_documents, n_mentions, kinds)


def _resolved(kb: KnowledgeBase, ids: Iterable[str]) -> dict[str, str]:
    """The concept id of each id, without ids that the KB lacks."""
    numbers = {id: number for id in sorted(ids) if (number := kb.number(id)) is not None}
    return {id: label[0] for id, label in zip(numbers, kb.labels(list(numbers.values())))}


def _without(document: Document, kb: KnowledgeBase, taken: Collection[str]) -> Document:
    """The document, with those ids of its mentions that are left.

    Where a mention loses an id, and the KB has none of those that are left, it loses these as well.
    """
    resolved = _resolved(kb, {id for mention in document.mentions for id in mention.ids})
    mentions = []
    for mention in document.mentions:
        left = tuple(id for id in mention.ids if resolved.get(id) not in taken)
        if len(left) < len(mention.ids) and not any(id in resolved for id in left):
            left = ()
        mentions.append(mention._replace(ids=left))
    return document._replace(mentions=tuple(mentions))


def kept_in_line(
    train: Census,
    others: Sequence[Census],
    of_types: Collection[str],
    *,
    tolerance: float,
    seed: int,
) -> set[str]:
    """Choose the entities of the types that stay in the KB.

    If all of them are taken out, the shares of NIL mentions and NIL entities that are seen in train
    may differ from the shares of the whole split. As long as one differs by more than the tolerance,
    entities are put back in random order, each if it brings the shares closer. A split keeps at
    least one NIL mention. If an order ends before all shares are close, further orders are tried, and
    the one that comes closest is taken.

    Args:
        train: The train split.
        others: The other splits, whose shares are compared.
        of_types: The entities of the types.
        tolerance: The largest difference allowed between two shares, from 0 to 1.
        seed: The seed for the orders.
    """
    nil = {n: kinds for n, split in enumerate(others) if (kinds := split.without(of_types))}
    entities = sorted(
        {entity for kinds in nil.values() for kind in kinds for entity in kind.entities}
    )
    column = {entity: n for n, entity in enumerate(entities)}
    in_train = train.entities
    is_seen = np.array([entity in in_train for entity in entities], dtype=bool)
    parts = []  # of each split the counts of its kinds, what they name, and the shares wanted
    for n, kinds in nil.items():
        places = [(row, column[e]) for row, kind in enumerate(kinds) for e in kind.entities]
        shape = (len(kinds), len(entities))
        names = csr_array((np.ones(len(places), dtype=np.int64), tuple(zip(*places))), shape=shape)
        whole = split_statistics(others[n], train)
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


def split_statistics(
    split: Census, train: Census, taken: Collection[str] | None = None
) -> dict[str, Any]:
    """The counts of the paper's Table 7 for a split, and the shares of it that are seen in train.

    Args:
        split: The split.
        train: The train split, which says what is seen.
        taken: The entities that are taken out of the KB: the mentions that become NIL are counted.
            None counts all mentions with an entity in the KB.

    Returns:
        ``mentions`` and distinct ``entities``; the shares, from 0 to 1 or None of nothing, of
        entities (``entities_seen``) and of mentions that have an entity (``mentions_seen``) which
        is mentioned in train, and of distinct texts of mentions that occur in train (``forms_seen``).
    """
    kinds = split.kinds if taken is None else split.without(taken)
    of_train = train.kinds if taken is None else train.without(taken)
    in_train, forms_in_train = train.entities, {kind.form for kind in of_train}
    entities = {entity for kind in kinds for entity in kind.entities}
    forms = {kind.form for kind in kinds}
    mentions = sum(kinds.values())
    seen = sum(n for kind, n in kinds.items() if not in_train.isdisjoint(kind.entities))
    return {
        "mentions": mentions,
        "entities": len(entities),
        "entities_seen": len(entities & in_train) / len(entities) if entities else None,
        "mentions_seen": seen / mentions if mentions else None,
        "forms_seen": len(forms & forms_in_train) / len(forms) if forms else None,
    }


def report_of(
    kb: KnowledgeBase,
    censuses: Mapping[str, Census],
    types: Sequence[str],
    of_types: Collection[str],
    taken: Collection[str],
    *,
    tolerance: float,
    seed: int,
) -> dict[str, Any]:
    """The report on a data set, as plain data that is ready for JSON.

    For each split it has ``split_statistics`` of three sets of mentions: "okb", those that become
    NIL; "of_types", all mentions of entities of the types, even if the entity stays in the KB; and
    "whole", all mentions that had an entity in the KB before.
    """
    train = censuses[TRAIN]
    mentioned = set().union(*(census.entities for census in censuses.values()))
    by_type: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for split, census in censuses.items():
        for kind, count in census.without(taken).items():
            for type in kb[kind.entities[0]].types:
                by_type[type][split] += count
    report: dict[str, Any] = {
        "kb": str(kb.path),
        "kb_entities": {"before": len(kb), "after": len(kb) - len(taken)},
        "types": list(types),
        "tolerance": tolerance,
        "seed": seed,
        "entities": {
            "of_types": len(of_types),
            "taken_out": len(taken),
            "taken_out_and_mentioned": len(mentioned.intersection(taken)),
            "kept_in_line": len(of_types) - len(taken),
        },
        "splits": {
            split: {
                "documents": census.documents,
                "mentions": census.mentions,
                "without_entity_in_kb": census.mentions - sum(census.kinds.values()),
                "okb": split_statistics(census, train, taken),
                "of_types": split_statistics(census, train, of_types),
                "whole": split_statistics(census, train),
            }
            for split, census in censuses.items()
        },
        "mentions_by_type": {
            type: {split: by_type[type][split] for split in censuses} for type in sorted(by_type)
        },
        "descriptions": {
            "okb": _descriptions(kb, mentioned.intersection(taken)),
            "whole": _descriptions(kb, mentioned),
        },
    }
    return {**report, "warnings": list(_warnings(report))}


def _descriptions(kb: KnowledgeBase, ids: Collection[str]) -> dict[str, Any]:
    """The share of the entities that have a definition, and how many words these have."""
    definitions = [kb[id].definition for id in ids]
    words = [len(definition.split()) for definition in definitions if definition]
    return {
        "entities": len(ids),
        "described": len(words) / len(ids) if ids else None,
        "mean": mean(words) if words else None,
        "median": median(words) if words else None,
    }


def _warnings(report: Mapping[str, Any]) -> Iterator[str]:
    """What of the mentions and entities out of the KB is unlike the whole."""
    pairs = {"Entities with a description": {"share": "described", **report["descriptions"]}}
    for split, figures in report["splits"].items():
        if not figures["okb"]["mentions"]:
            yield f"{split}: no mention is taken out of the KB"
        elif split != TRAIN:
            pairs |= {f"{split}: {t}": {"share": field, **figures} for field, t in SHARES.items()}
    for what, pair in pairs.items():
        okb, whole = pair["okb"][pair["share"]], pair["whole"][pair["share"]]
        if None not in (okb, whole) and abs(okb - whole) > report["tolerance"]:
            yield (
                f"{what}: {_percent(okb)} % of what is out of the KB, {_percent(whole)} % of the "
                f"whole, which is more than {_percent(report['tolerance'])} points apart"
            )


def markdown(report: Mapping[str, Any]) -> str:
    """A report as Markdown: the counts of the paper's Table 7, and the shares that should agree."""
    splits = report["splits"].values()
    header = ["", *report["splits"]]
    table_7 = [
        ["Mentions", *(f"{split['okb']['mentions']:,}" for split in splits)],
        ["Entities", *(f"{split['okb']['entities']:,}" for split in splits)],
        ["% Entities seen", *(_percent(split["okb"]["entities_seen"]) for split in splits)],
    ]
    shares = [
        [title, *(f"{_percent(s['okb'][field])} / {_percent(s['whole'][field])}" for s in splits)]
        for field, title in SHARES.items()
    ]
    both = [report["descriptions"][which] for which in ("okb", "whole")]
    descriptions = [
        ["Entities", *(f"{of['entities']:,}" for of in both)],
        ["% with a description", *(_percent(of["described"]) for of in both)],
        ["Words, mean", *(_one_decimal(of["mean"]) for of in both)],
        ["Words, median", *(_one_decimal(of["median"]) for of in both)],
    ]
    parts = [
        "Mentions out of the KB (Table 7)",
        markdown_table(header, table_7),
        "Seen in train, in % (out of the KB / all with an entity in it)",
        markdown_table(header, shares),
        "Descriptions of the mentioned entities",
        markdown_table(["", "out of the KB", "whole"], descriptions),
    ]
    return "\n\n".join(parts) + "\n"


def _percent(share: float | None) -> str:
    return _one_decimal(None if share is None else 100 * share)


def _one_decimal(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


Corpora = typer.Option(
    help="File whose mentions have ids (.pubtator, .jsonl, ...), or FOLDER:SPLIT of MedMentions; may "
    "be repeated"
)


def main(
    kb: Annotated[Path, typer.Argument(metavar="KB", help="Folder of a KB")],
    out: Annotated[Path, typer.Argument(help="Folder to make")],
    types: Annotated[
        list[str],
        typer.Option(
            help="What to take out of the KB: a semantic type, by name or code; an entity and all "
            "below it, by name or id; or paper, for the paper's types. May be repeated"
        ),
    ],
    train: Annotated[list[str], Corpora],
    dev: Annotated[list[str] | None, Corpora] = None,
    test: Annotated[list[str] | None, Corpora] = None,
    tolerance: Annotated[
        float,
        typer.Option(
            min=0,
            max=100,
            help="Percentage points by which a share seen in train may differ from the whole split's",
        ),
    ] = 2.0,
    seed: Annotated[int, typer.Option(help="Seed for the choice of entities that stay")] = 0,
) -> None:
    """Make a data set for experiments with NIL.

    The entities of chosen types are taken out of the KB, so that their mentions become NIL. OUT gets
    the KB without these entities, to be embedded, and the corpora with NIL for their mentions.

    The share of entities and of mentions that are seen in train should be the same for NIL as for
    the whole split. If it differs by more than --tolerance, some entities of the types stay in the
    KB, chosen at random. With --tolerance 100 all of them are taken out. OUT/table.md has the
    counts of the paper's Table 7, and compares these shares.
    """
    given = {"train": train, "dev": dev, "test": test}
    splits = {split: corpora for split, corpora in given.items() if corpora}
    tolerance /= 100
    report = build_okb(KnowledgeBase.open(kb), splits, out, types, tolerance=tolerance, seed=seed)
    print(markdown(report))
    for warning in report["warnings"]:
        print(f"Warning: {warning}")
    entities = report["entities"]
    if entities["kept_in_line"]:
        print(
            f"{entities['kept_in_line']:,} of {entities['of_types']:,} entities of the types stay "
            "in the KB, so that the shares seen in train are those of the whole split"
        )
    before = report["kb_entities"]["before"]
    print(f"Took {entities['taken_out']:,} of {before:,} entities out: {out}")
    print(f"To link to it, embed it: python -m spacy pel kb embed {out / 'kb'} PIPELINE")


if __name__ == "__main__":
    typer.run(main)
