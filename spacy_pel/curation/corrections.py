"""A person's corrections: read from an export, given a scope, and stored in the KB of a linker.

From then on they go before everything that was learnt (``linking.corrections``), also in pipelines and
servers that are running.
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
from ..linking.corrections import weighted_words
from ..linking.ordering import is_acronym
from ..spans import NIL

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker

_QUOTED = 40  # characters before and after a mention that are shown of its text


class Correction(NamedTuple):
    """What a person decided about a name.

    Attributes:
        name: The words of the mention; "": those from ``start`` to ``end``.
        concept_id: The id of its entity in the KB, or "NIL": it is never an entity.
        scope: "always"; "label": for mentions with this label; "text": in this text and in texts alike.
            "": see ``fix``.
        label: The label of the mention; needed for the scope "label".
        text: The text of the mention; needed for the scope "text".
        start: Its first character in the text.
        end: The character after its last.
    """

    name: str
    concept_id: str
    scope: str = ""
    label: str = ""
    text: str = ""
    start: int = -1
    end: int = -1


def fix(target: ProxyLinker | str | Path, corrections: Iterable[Correction]) -> list[Decision]:
    """Store corrections in a KB, all or none, and return them as they are stored.

    A correction replaces an earlier one about the same name, scope, label and text. Without a scope, a
    correction holds always if its name has no other meaning: the KB has it for no other entity, it is
    no acronym, and the corrections agree. Otherwise it holds in its text and in texts alike.

    Args:
        target: A linker, or the folder of a KB.
        corrections: What people decided.

    Raises:
        PelError: An id is not in the KB, a correction lacks what its scope needs, there is no KB, or
            another process is writing to it.
    """
    folder = Path(target) if isinstance(target, (str, Path)) else target.kb.path
    with KnowledgeBase.open(folder) as kb:
        checked = [_checked(kb, each) for each in corrections]
        meant: dict[str, set[str]] = defaultdict(set)
        for each in checked:
            meant[name_key(each.name)].add(each.concept_id)
        scoped = [
            each if each.scope else each._replace(scope=default_scope(kb, each, meant))
            for each in checked
        ]
        new = [_decision(kb, each) for each in scoped]
    if not new:
        return []
    stored: list[Decision] = []

    def with_new(present: list[Decision], number: int) -> list[Decision]:
        latest = {each.key: each for each in new}
        stored.extend(each._replace(number=n) for n, each in enumerate(latest.values(), number))
        return [*(each for each in present if each.key not in latest), *stored]

    change_corrections(folder, with_new)
    return stored


def default_scope(kb: KnowledgeBase, given: Correction, meant: Mapping[str, set[str]]) -> str:
    """The scope of a correction without one; see ``fix``. ``meant`` has the ids of each name's key."""
    if not given.text:
        return ALWAYS
    owners = {id for id, _ in kb.labels(kb.numbers_named(given.name))}
    others = (owners | meant[name_key(given.name)]) - {given.concept_id}
    return TEXT if others or is_acronym(given.name) else ALWAYS


class Export(NamedTuple):
    """What people decided in documents."""

    corrections: list[Correction]
    unknown: list[str]  # ids that the KB lacks, of mentions that were left out


def read_corrections(
    path: str | Path, kb: KnowledgeBase, format: str | None = None, scope: str = "", label: str = ""
) -> Export:
    """Read what people decided in documents with ids: an export of the page, or annotated documents.

    A mention of JSON with a "score" has the answer of a linker, and nobody's decision: it is left out. So
    is a mention without an id; "NIL" counts in JSON alone, because other formats use it for mentions that
    nobody looked up. Of several ids the first that the KB has counts.

    PelError if a document cannot be read.
    """
    corrections, unknown = [], []
    for raw in open_documents(path, format, with_ids=True):
        document = raw.document()
        for mention, ids in decided_mentions(raw, document):
            known = next((id for id in ids if id == NIL or id in kb), None)
            if known is None:
                unknown.append(ids[0])
                continue
            place = mention.text, known, scope, mention.label
            corrections.append(Correction(*place, document.text, mention.start, mention.end))
    if label:
        corrections = [each for each in corrections if each.label.casefold() == label.casefold()]
    return Export(corrections, list(dict.fromkeys(unknown)))


def decided_mentions(
    raw: RawDocument, document: Document
) -> Iterator[tuple[Mention, tuple[str, ...]]]:
    """The mentions of a document that somebody decided, and their ids; see ``read_corrections``."""
    mentions = document.mentions or ()
    record: Any = raw.data
    if raw.format.name == "jsonl":
        record = json_object(decoded(record))
    given = record.get("mentions") if isinstance(record, dict) else None
    if not isinstance(given, list):
        yield from ((mention, mention.ids) for mention in mentions if mention.ids)
        return
    for mention, own in zip(mentions, given):
        ids = (NIL,) if own.get("id") == NIL else mention.ids
        if ids and "score" not in own:
            yield mention, ids


def _checked(kb: KnowledgeBase, given: Correction) -> Correction:
    """A correction with its name and the concept id of its entity; PelError if it is incomplete."""
    name, id, scope, label, text, start, end = given
    if scope not in ("", *SCOPES):
        raise PelError(f"no scope {scope!r}", f"choose one of {', '.join(SCOPES)}")
    if text:
        if start < 0 and name in text:
            start, end = text.index(name), text.index(name) + len(name)
        if not 0 <= start < end <= len(text):
            raise PelError(f"{name!r} is not in the text that was given", "correct its offsets")
        name = name or text[start:end]
    if not name.strip():
        raise PelError("a correction without a name", "give the words of the mention")
    if scope == TEXT and not text:
        raise PelError(f"{name}: no text is given", 'give the text, or choose the scope "always"')
    if scope == LABEL and not label:
        raise PelError(f"{name}: no label is given", 'give one, or choose the scope "always"')
    if id != NIL:
        number = kb.number(id)
        if number is None:
            remedy = f"find the right one: python -m spacy pel kb info {kb.path} {name!r}"
            raise PelError(f"{name}: {id!r} is not in {kb.path}", remedy)
        [(id, _)] = kb.labels([number])
    return Correction(name, id, scope, label, text, start, end)


def _decision(kb: KnowledgeBase, given: Correction) -> Decision:
    """What is stored of a correction with a scope, without a number."""
    name, id, scope, label, text, start, end = given
    if scope == ALWAYS:
        return Decision(0, name, id, scope)
    if scope == LABEL:
        return Decision(0, name, id, scope, label)
    before, after = text[max(0, start - _QUOTED) : start], text[end : end + _QUOTED]
    quote = " ".join(f"{before}[{text[start:end]}]{after}".split())
    words = weighted_words(kb, text)
    return Decision(0, name, id, scope, "", quote, text_digest(text), start, words)
