"""From corpora and a KB to a data set whose mentions of chosen types are out of the KB."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ...documents.document import Document
from ...documents.pubtator import pubtator_text
from ...errors import PelError
from ...kb import KnowledgeBase, build_kb
from ...system.whole_files import whole_folder
from .census import Census, census_of, resolved_ids
from .entities_of_types import ids_of_types
from .kept_entities import kept_in_line
from .okb_report import markdown, report_of

T = TypeVar("T")
Progress = Callable[[Iterable[T], str], Iterable[T]]

TRAIN = "train"
REPORT = "report.json"
KB = "kb"


class ReadableCorpus(Protocol):
    """A corpus, as far as it is needed here: read anew at every call."""

    def documents(self) -> Iterator[Document]: ...


def build_okb(
    kb: KnowledgeBase,
    splits: Mapping[str, Sequence[ReadableCorpus]],
    out: Path,
    types: Sequence[str],
    *,
    tolerance: float = 0.02,
    seed: int = 0,
    progress: Progress = lambda items, what: items,
) -> dict[str, Any]:
    """Write the corpora and the KB without the entities of the types to a folder; give the report.

    splits: the corpora of "train", and of one or more others. types: see ``ids_of_types``.
    tolerance, seed: see ``kept_in_line``. progress: wraps what takes long, with its name.

    The folder holds ``<split>.pubtator``, ``kb`` (without vectors), ``report.json`` and the same
    as tables in ``table.md``. An id that was taken out is gone from its mention, which is NIL when
    no other of its ids is in the KB. Until the very end, and after any error or interruption, what
    was at ``out`` stays.
    Raises PelError if ``out`` holds something else, for types that the KB does not have, if no
    mention is of the types, and for a fault of the corpora.
    """
    _check(splits, out)
    of_types = ids_of_types(kb, types, progress(kb, "Reading the KB"))
    censuses = {
        split: census_of(kb, progress(_documents(corpora), f"Counting {split}"))
        for split, corpora in splits.items()
    }
    others = [census for split, census in censuses.items() if split != TRAIN]
    kept = kept_in_line(censuses[TRAIN], others, of_types, tolerance=tolerance, seed=seed)
    taken = of_types - kept
    _check_mentions(censuses, taken, types)
    report = report_of(kb, censuses, types, of_types, taken, tolerance=tolerance, seed=seed)
    with whole_folder(out) as folder:
        for split, corpora in splits.items():
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


def _check(splits: Mapping[str, Sequence[ReadableCorpus]], out: Path) -> None:
    if not splits.get(TRAIN) or len(splits) < 2:
        raise PelError(
            "a train split and another one are needed, as entities are seen in train", "give both"
        )
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


def _documents(corpora: Sequence[ReadableCorpus]) -> Iterator[Document]:
    for corpus in corpora:
        yield from corpus.documents()


def _without(
    documents: Iterable[Document], kb: KnowledgeBase, taken: Collection[str]
) -> Iterator[Document]:
    """The documents with the ids of mentions that are left.

    Of a mention that loses an id, one that the KB never had goes as well if no other stays.
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
