"""Makes a data set for NIL: a KB without the entities of chosen types, and corpora to match."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from spacy_pel.corpora.document_corpus import DocumentCorpus, open_corpus
from spacy_pel.documents.document import Document
from spacy_pel.documents.pubtator import pubtator_text
from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase, build_kb
from spacy_pel.system.whole_files import whole_folder

from .census import Census, census_of, resolved_ids
from .entities_of_types import entities_of_types
from .kept_entities import kept_in_line
from .okb_report import markdown, report_of

T = TypeVar("T")
Progress = Callable[[Iterable[T], str], Iterable[T]]

TRAIN = "train"
REPORT = "report.json"
KB = "kb"


def build_okb(
    kb: KnowledgeBase,
    splits: Mapping[str, Sequence[str | Path]],
    out: Path,
    types: Sequence[str],
    *,
    tolerance: float = 0.02,
    seed: int = 0,
    progress: Progress = lambda items, what: items,
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
        progress: Wraps the items of what takes long, with a name for it.

    Returns:
        The report, see ``okb_report.report_of``.

    Raises:
        PelError: ``out`` holds something else, the KB has no such types, no mention is of the types,
            or a corpus is missing or faulty.
    """
    _check(splits, out)
    opened = {split: [open_corpus(name) for name in names] for split, names in splits.items()}
    of_types = entities_of_types(kb, types, progress(kb, "Reading the KB"))
    censuses = {
        split: census_of(kb, progress(_documents(corpora), f"Counting {split}"))
        for split, corpora in opened.items()
    }
    others = [census for split, census in censuses.items() if split != TRAIN]
    kept = kept_in_line(censuses[TRAIN], others, of_types, tolerance=tolerance, seed=seed)
    taken = of_types - kept
    _check_mentions(censuses, taken, types)
    report = report_of(kb, censuses, types, of_types, taken, tolerance=tolerance, seed=seed)
    with whole_folder(out) as folder:
        for split, corpora in opened.items():
            documents = progress(_documents(corpora), f"Writing {split}")
            _write(folder / f"{split}.pubtator", _without(documents, kb, taken))
        entities = (entity for entity in kb if entity.concept_id not in taken)
        source = f"{kb.path} without {', '.join(types)}"
        build_kb(
            progress(entities, "Writing the KB"),
            folder / KB,
            types=kb.semantic_types,
            sources=[source],
        ).close()
        (folder / REPORT).write_text(json.dumps(report, indent=2) + "\n", encoding="utf8")
        (folder / "table.md").write_text(markdown(report), encoding="utf8")
    return report


def _check(splits: Mapping[str, Sequence[str | Path]], out: Path) -> None:
    if not splits.get(TRAIN) or len(splits) < 2:
        raise PelError("a train split and another one are needed", "give both")
    if out.exists() and not ((out / REPORT).is_file() and (out / KB).is_dir()):
        raise PelError(f"{out}: exists, and is no such data set", "choose a new folder")


def _check_mentions(
    censuses: Mapping[str, Census], taken: Collection[str], types: Sequence[str]
) -> None:
    if not any(census.kinds for census in censuses.values()):
        raise PelError(
            "none of the corpora's ids is in the KB", "give a KB that uses the same identifiers"
        )
    if not any(True for census in censuses.values() for _ in census.without(taken)):
        raise PelError(f"no mention is of {', '.join(types)}", "choose other types")


def _documents(corpora: Sequence[DocumentCorpus]) -> Iterator[Document]:
    for corpus in corpora:
        yield from corpus.documents()


def _without(
    documents: Iterable[Document], kb: KnowledgeBase, taken: Collection[str]
) -> Iterator[Document]:
    """The documents, with those ids of their mentions that are left.

    Where a mention loses an id, and the KB has none of those that are left, it loses these as well.
    """
    for document in documents:
        resolved = resolved_ids(kb, {id for mention in document.mentions for id in mention.ids})
        mentions = []
        for mention in document.mentions:
            left = tuple(id for id in mention.ids if resolved.get(id) not in taken)
            lost = len(left) < len(mention.ids)
            if lost and not any(id in resolved for id in left):
                left = ()
            mentions.append(mention._replace(ids=left))
        yield document._replace(mentions=tuple(mentions))


def _write(path: Path, documents: Iterable[Document]) -> None:
    with open(path, "w", encoding="utf8", newline="\n") as file:
        for document in documents:
            file.write(pubtator_text(document))
