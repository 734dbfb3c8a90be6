"""Ontologies in OBO, as streams.

Libraries (pronto, fastobo) hold a file in memory, and refuse what breaks the grammar, as published files
do.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from ...errors import PelError
from ...system.lines import LONGEST_LINE, numbered_lines, record_too_long
from ..records.entity import Entity, cleaned_at, ends_of
from .entity_source import ReadOptions, Source, SourceFormat

logger = logging.getLogger(__name__)

Facts = dict[str, list[str]]  # the values of a class by the tags of OBO
Class = tuple[str, str, Facts]  # its place, id and facts


def _class_entities(
    path: Path, classes: Iterable[Class], namespace: str | None = None
) -> Iterator[Entity]:
    """The entities of the classes that have a name and are not obsolete.

    Synonyms of every scope are aliases. The type is the namespace of the class, or else the given one.
    The source is the prefix of the id. If exactly one class replaces an obsolete class, the obsolete id
    becomes a retired id of that class.
    """
    known: dict[str, Entity] = {}
    replaced_by: dict[str, str] = {}
    nameless = 0
    for place, id, facts in classes:
        if facts.get("is_obsolete"):
            if len(facts.get("replaced_by", ())) == 1:
                [replaced_by[id]] = facts["replaced_by"]
        elif facts.get("name"):
            prefix, colon, _ = id.partition(":")
            entity = Entity(
                concept_id=id,
                canonical_name=facts["name"][0],
                aliases=tuple(facts.get("synonym", ())),
                types=tuple(facts.get("namespace") or filter(None, [namespace])),
                definition=next(iter(facts.get("def", ())), None),
                alt_ids=tuple(facts.get("alt_id", ())),
                parents=tuple(facts.get("is_a", ())),
                xrefs=tuple(facts.get("xref", ())),
                sources=(prefix,) if colon and "/" not in id else (),
            )
            entity = cleaned_at(place, entity)
            known.setdefault(id, Entity(id, entity.canonical_name, sources=entity.sources))
            yield entity
        else:
            nameless += 1
    ends = ends_of(replaced_by)
    for retired in sorted(replaced_by):
        if lasting := known.get(ends[retired]):  # joined with the record above
            yield lasting._replace(retired_ids=(retired,))
    if nameless:
        logger.warning("%s: skipped %d classes without a name", path, nameless)


_IDENTIFIER = r"((?:[^\s\\]|\\.)+)(?=\s|$)"
# What is read of each clause. References, qualifiers and comments stand behind it.
_VALUES = {
    "id": rf"{_IDENTIFIER}\s*(?:[!{{].*)?$",
    **dict.fromkeys(("alt_id", "xref", "is_a", "is_obsolete", "replaced_by"), _IDENTIFIER),
    **dict.fromkeys(("name", "namespace"), r"((?:[^\\!{]|\\.)*(?:[^\\!{\s]|\\.))"),
    **dict.fromkeys(("def", "synonym"), r'"((?:[^"\\]|\\.)*)"'),
}
_CLAUSES = {tag: re.compile(rf"{tag}:\s*{value}") for tag, value in _VALUES.items()}
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "W": " "}


def read_obo(path: Path, options: ReadOptions) -> Source:
    """The terms of an ``.obo`` file, as ``_class_entities`` makes them.

    Frames with the same id are joined, as the format says; so files may be concatenated. A clause that
    cannot be read is left out and counted, unless it is an id or a name.
    """
    header: dict[str, str] = {}
    for _, line in numbered_lines(path):
        if line.startswith("["):
            break
        tag, _, value = line.partition(":")
        header.setdefault(tag, value.strip())
    entities = _class_entities(path, _obo_terms(path), header.get("default-namespace"))
    return Source(entities, version=header.get("data-version"))


def _obo_terms(path: Path) -> Iterator[Class]:
    facts: Facts = {}
    is_term, size, broken = False, 0, []
    for number, line in chain(numbered_lines(path), [(0, "[")]):
        tag, place, size = line.partition(":")[0], f"{path}, line {number}", size + len(line)
        if line.startswith("["):
            if facts:
                yield f"{path}, term {facts['id'][0]}", facts["id"][0], facts
            is_term, facts, size = line.startswith("[Term]"), {}, 0
        elif is_term and tag in _CLAUSES:
            if size > LONGEST_LINE:
                raise record_too_long(path, number)
            found = _CLAUSES[tag].match(line)
            if found and ("id" in facts) == (tag != "id"):
                value = _ESCAPED.sub(lambda each: _ESCAPES.get(each[1], each[1]), found[1])
                if (tag, value) != ("is_obsolete", "false"):
                    facts.setdefault(tag, []).append(value)
            elif tag in ("id", "name") or "id" not in facts:
                raise PelError(
                    f"{place}: cannot be parsed as OBO: {line[:80]!r}", "correct the line"
                )
            else:
                broken.append(f"{number}: {line[:80]}")
    if broken:
        logger.warning(
            "%s: left out %d clauses, the first in line %s", path, len(broken), broken[0]
        )


OBO = SourceFormat("obo", read_obo, ("*.obo",))
