"""OBO, the flat-file format of biomedical ontologies.

fastobo parses one term at a time, so memory does not grow with the file. Published files break the
grammar in places that do not matter here, mostly in the references after a definition. Such a clause
is read without its references. If it still breaks the grammar, it is left out and counted.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import PelError
from ...system.lines import numbered_lines
from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from ..records.merging import united
from .entity_source import ReadOptions, Source

if TYPE_CHECKING:
    from fastobo.term import TermFrame

logger = logging.getLogger(__name__)

# The clauses that are read, and the attribute of fastobo's clause that holds the value.
_VALUES = {
    "name": attrgetter("name"),
    "namespace": attrgetter("namespace"),
    "alt_id": attrgetter("alt_id"),
    "def": attrgetter("definition"),
    "synonym": attrgetter("synonym.desc"),
    "xref": attrgetter("xref.id"),
    "is_a": attrgetter("term"),
    "is_obsolete": attrgetter("obsolete"),
    "replaced_by": attrgetter("term"),
}
# A definition or synonym up to its type and references: "text" EXACT ABBREVIATION [PMID:1]
_QUOTED = re.compile(r'(?:def|synonym): *"(?:[^"\\]|\\.)*"(?: *(?:EXACT|BROAD|NARROW|RELATED))?')

Line = tuple[int, str]  # number and text


def read_obo(path: Path, options: ReadOptions) -> Source:
    """The terms of an ``.obo`` or ``.obo.gz`` file that are not obsolete, sorted by id.

    Synonyms of every scope are aliases. ``is_a`` gives the parents. The type is the namespace of
    the term, or else the default namespace of the file. The source is the prefix of the id. If
    exactly one term replaces an obsolete term, the obsolete id becomes a retired id of that term.
    Frames with the same id are joined, as the format says; so files may be concatenated. Terms
    without a name are skipped, and the log says how many. The version is ``data-version``.

    Reading the entities raises PelError, with file and line, for a term whose id or name cannot be
    parsed, and for what ``cleaned`` refuses.
    """
    header = _header(path)
    entities = united(_entities(path, header.get("default-namespace")))
    return Source(entities, version=header.get("data-version"))


def _header(path: Path) -> dict[str, str]:
    header: dict[str, str] = {}
    for _, line in numbered_lines(path):
        if line.startswith("["):
            break
        tag, _, value = line.partition(":")
        header.setdefault(tag.strip(), value.strip())
    return header


def _entities(path: Path, namespace: str | None) -> Iterator[Entity]:
    retired = _retired(path)
    broken, nameless = [], 0
    for lines in _terms(path):
        frame = _frame(path, lines, broken)
        facts = _facts(frame)
        if "is_obsolete" in facts:
            continue
        if "name" not in facts:
            nameless += 1
            continue
        entity = _entity(_text(frame.id), facts, namespace, retired)
        yield cleaned_at(f"{path}, line {lines[0][0]}", entity)
    if broken:
        number, line = broken[0]
        logger.warning(
            "%s: left out %d clauses that break the OBO grammar, the first in line %d: %s",
            path, len(broken), number, line[:80],
        )  # fmt: skip
    if nameless:
        logger.warning("%s: skipped %d terms without a name", path, nameless)


def _entity(
    id: str, facts: dict[str, list[str]], namespace: str | None, retired: dict[str, list[str]]
) -> Entity:
    prefix, colon, _ = id.partition(":")
    types = facts.get("namespace") or ([namespace] if namespace else [])
    return Entity(
        concept_id=id,
        canonical_name=facts["name"][0],
        aliases=tuple(facts.get("synonym", ())),
        types=tuple(types),
        definition=facts.get("def", [None])[0],
        alt_ids=tuple(facts.get("alt_id", ())),
        parents=tuple(facts.get("is_a", ())),
        retired_ids=tuple(retired.get(id, ())),
        xrefs=tuple(dict.fromkeys(facts.get("xref", ()))),
        sources=(prefix,) if colon and "/" not in id else (),
    )


def _retired(path: Path) -> dict[str, list[str]]:
    """The obsolete ids that each term replaces, directly or through other obsolete ids."""
    replacement: dict[str, str] = {}
    for lines in _terms(path):
        if any(line.startswith("is_obsolete:") for _, line in lines):
            frame = _frame(path, lines, [])
            facts = _facts(frame)
            if "is_obsolete" in facts and len(facts.get("replaced_by", ())) == 1:
                replacement[_text(frame.id)] = facts["replaced_by"][0]
    retired: dict[str, list[str]] = {}
    for id in sorted(replacement):
        seen, last = {id}, replacement[id]
        while last in replacement and last not in seen:
            seen.add(last)
            last = replacement[last]
        if last not in seen:
            retired.setdefault(last, []).append(id)
    return retired


def _terms(path: Path) -> Iterator[list[Line]]:
    """The lines of each term that are read here, with their numbers."""
    lines: list[Line] | None = None
    for number, line in numbered_lines(path):
        if line.startswith("["):
            if lines:
                yield lines
            lines = [] if line.startswith("[Term]") else None
        elif lines is not None and line.partition(":")[0] in ("id", *_VALUES):
            lines.append((number, line))
    if lines:
        yield lines


def _frame(path: Path, lines: Iterable[Line], broken: list[Line]) -> TermFrame:
    """The parsed clauses of a term. Those that break the grammar are appended to ``broken``."""
    import fastobo

    lines = list(lines)
    while True:
        text = "\n".join(line for _, line in lines)
        try:
            return fastobo.loads(f"[Term]\n{text}\n", threads=1)[0]
        except (SyntaxError, ValueError) as error:
            place = min(max((getattr(error, "lineno", None) or 2) - 2, 0), len(lines) - 1)
            number, line = lines[place]
            if line.startswith(("id:", "name:")) or place == 0:
                raise PelError(
                    f"{path}, line {number}: cannot be parsed as OBO: {line[:80]!r}",
                    "correct the line",
                ) from error
            quoted = _QUOTED.match(line)
            if quoted and line != f"{quoted[0]} []":
                lines[place] = (number, f"{quoted[0]} []")
            else:
                broken.append(lines.pop(place))


def _facts(frame: TermFrame) -> dict[str, list[str]]:
    """The values of a term's clauses, by tag. ``is_obsolete`` is there only if it is true."""
    facts: dict[str, list[str]] = {}
    for clause in frame:
        tag = clause.raw_tag()
        value = _VALUES[tag](clause)
        if value:
            facts.setdefault(tag, []).append(_text(value))
    return facts


def _text(value: Any) -> str:
    """A text, or an identifier without OBO's backslashes."""
    if hasattr(value, "local"):
        return f"{value.prefix}:{value.local}"
    return str(getattr(value, "unescaped", value))
