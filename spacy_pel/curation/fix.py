"""Read corrections from an export, choose their scopes, and store them in the KB of a linker.

Corrections override everything learnt (``linking.apply_corrections``), also in running pipelines and servers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..corpora.document import Document, Mention
from ..corpora.formats.base import decoded
from ..corpora.open_documents import RawDocument, open_documents
from ..errors import PelError
from ..io.lines import json_object
from ..kb.corrections import (
    ALWAYS,
    LABEL,
    SCOPES,
    TEXT,
    Decision,
    change_corrections,
    name_key,
    text_digest,
)
from ..kb.knowledge_base import KnowledgeBase
from ..linking.apply_corrections import weighted_words
from ..linking.ordering import is_acronym
from ..spans import NIL

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker

_QUOTED = 40  # characters quoted on each side of a mention


class Correction(NamedTuple):
    """A person's decision about a name.

    Attributes:
        name: The words of the mention, or "" for those from ``start`` to ``end``.
        concept_id: The id of its entity in the KB, or "NIL" for no entity.
        scope: "always"; "label": for mentions with this label; "text": in this text and in similar texts;
            "": see ``fix``.
        label: The label of the mention, needed for the scope "label".
        text: The text of the mention, needed for the scope "text".
        start: The first character of the mention in the text.
        end: The character after its last character.
    """

    name: str
    concept_id: str
    scope: str = ""
    label: str = ""
    text: str = ""
    start: int = -1
    end: int = -1


def fix(target: ProxyLinker | str | Path, corrections: Iterable[Correction]) -> list[Decision]:
    """Store corrections in a KB, all or none, and return them as stored.

    A correction replaces an earlier one with the same name, scope, label, and text. Without a scope, a
    correction always applies if its name is unambiguous: no other entity has it, it is no abbreviation,
    and the corrections agree. Otherwise, it applies to its text and to similar texts.

    Args:
        target: A linker, or the folder of a KB.
        corrections: The decisions of people.

    Raises:
        PelError: An id is not in the KB, a correction lacks a field that its scope needs, there is no KB, or
            another process is writing to it.
    """
    folder = Path(target) if isinstance(target, (str, Path)) else target.kb.path
    with KnowledgeBase.open(folder) as kb:
        checked = [_checked(kb, correction) for correction in corrections]
        ids_of_names: dict[str, set[str]] = defaultdict(set)
        for correction in checked:
            ids_of_names[name_key(correction.name)].add(correction.concept_id)
        new = []
        for correction in checked:
            scope = correction.scope or default_scope(kb, correction, ids_of_names)
            new.append(_decision(kb, correction._replace(scope=scope)))
    if not new:
        return []
    stored: list[Decision] = []

    def with_new(present: list[Decision], number: int) -> list[Decision]:
        latest = {decision.key: decision for decision in new}
        stored.extend(d._replace(number=n) for n, d in enumerate(latest.values(), number))
        return [*(decision for decision in present if decision.key not in latest), *stored]

    change_corrections(folder, with_new)
    return stored


def default_scope(
    kb: KnowledgeBase, correction: Correction, ids_of_names: Mapping[str, set[str]]
) -> str:
    """Return the scope of a correction without one; see ``fix``.

    ``ids_of_names`` has the ids of all corrections by ``name_key``.
    """
    if not correction.text:
        return ALWAYS
    owners = {id for id, _ in kb.labels(kb.numbers_named(correction.name))}
    others = (owners | ids_of_names[name_key(correction.name)]) - {correction.concept_id}
    return TEXT if others or is_acronym(correction.name) else ALWAYS


class Export(NamedTuple):
    """The corrections in documents, and the ids of ignored mentions, which the KB lacks."""

    corrections: list[Correction]
    unknown: list[str]


def read_corrections(
    path: str | Path, kb: KnowledgeBase, format: str | None = None, scope: str = "", label: str = ""
) -> Export:
    """Read corrections from documents with ids: an export of the page, or annotated documents.

    Mentions without an id are ignored. So are mentions in JSON with a "score", because their ids are
    predictions. "NIL" counts only in JSON, because other formats use it for mentions that nobody reviewed.
    If a mention has several ids, the first one in the KB counts.

    Args:
        path: Names of documents, as for ``open_documents``.
        kb: The KB.
        format: The name of their format. None infers it from the file.
        scope: The scope of all corrections.
        label: Keep only mentions with this label, ignoring case.

    Raises:
        PelError: A document cannot be read.
    """
    corrections, unknown = [], []
    for raw in open_documents(path, format, with_ids=True):
        document = raw.document()
        for mention, ids in decided_mentions(raw, document):
            known = next((id for id in ids if id == NIL or id in kb), None)
            if known is None:
                unknown.append(ids[0])
                continue
            correction = Correction(mention.text, known, scope, mention.label)
            corrections.append(
                correction._replace(text=document.text, start=mention.start, end=mention.end)
            )
    if label:
        corrections = [c for c in corrections if c.label.casefold() == label.casefold()]
    return Export(corrections, list(dict.fromkeys(unknown)))


def decided_mentions(
    raw: RawDocument, document: Document
) -> Iterator[tuple[Mention, tuple[str, ...]]]:
    """Yield the mentions that a person reviewed, with their ids; see ``read_corrections``."""
    mentions = document.mentions or ()
    record: Any = raw.data
    if raw.format.name == "jsonl":
        record = json_object(decoded(record))
    fields = record.get("mentions") if isinstance(record, dict) else None
    if not isinstance(fields, list):
        yield from ((mention, mention.ids) for mention in mentions if mention.ids)
        return
    for mention, mention_fields in zip(mentions, fields):
        ids = (NIL,) if mention_fields.get("id") == NIL else mention.ids
        if ids and "score" not in mention_fields:
            yield mention, ids


def _checked(kb: KnowledgeBase, correction: Correction) -> Correction:
    """Return a correction with its name and the concept id of its entity; PelError if it is incomplete."""
    name, id, scope, label, text, start, end = correction
    if scope not in ("", *SCOPES):
        raise PelError(f"unknown scope {scope!r}", f"choose one of {', '.join(SCOPES)}")
    if text:
        if start < 0 and name in text:
            start, end = text.index(name), text.index(name) + len(name)
        if not 0 <= start < end <= len(text):
            raise PelError(f"{name!r} is not at its offsets in the text", "correct its offsets")
        name = name or text[start:end]
    if not name.strip():
        raise PelError("the correction has no name", "give the words of the mention")
    if scope == TEXT and not text:
        raise PelError(f"{name}: no text is given", 'give the text, or choose the scope "always"')
    if scope == LABEL and not label:
        raise PelError(f"{name}: no label is given", 'give one, or choose the scope "always"')
    if id != NIL:
        number = kb.number(id)
        if number is None:
            remedy = f"look it up: python -m spacy pel kb info {kb.path} {name!r}"
            raise PelError(f"{name}: {id!r} is not in {kb.path}", remedy)
        [(id, _)] = kb.labels([number])
    return Correction(name, id, scope, label, text, start, end)


def _decision(kb: KnowledgeBase, correction: Correction) -> Decision:
    """Return the stored form of a correction with a scope, without a number."""
    name, id, scope, label, text, start, end = correction
    if scope == ALWAYS:
        return Decision(0, name, id, scope)
    if scope == LABEL:
        return Decision(0, name, id, scope, label)
    before, after = text[max(0, start - _QUOTED) : start], text[end : end + _QUOTED]
    quote = " ".join(f"{before}[{text[start:end]}]{after}".split())
    words = weighted_words(kb, text)
    return Decision(0, name, id, scope, "", quote, text_digest(text), start, words)
