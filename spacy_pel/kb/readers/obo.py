"""OBO, the flat-file format of biomedical ontologies.

fastobo parses one term at a time, so memory does not grow with the file. Published files break the
grammar in places that do not matter here, mostly in the references after a definition. Such a clause
is read without its references. If it still breaks the grammar, it is left out and counted.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import PelError
from ...system.lines import LONGEST_LINE, numbered_lines, record_too_long
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
Facts = dict[str, list[str]]  # the values of each tag


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
        if tag in ("default-namespace", "data-version"):
            header.setdefault(tag, value.strip())
    return header


def _entities(path: Path, namespace: str | None) -> Iterator[Entity]:
    retired = _retired(path)
    broken, nameless = [], 0
    for lines in _terms(path):
        id, facts = _parsed(path, lines, broken)
        if "is_obsolete" in facts:
            continue
        if "name" not in facts:
            nameless += 1
            continue
        entity = term_entity(id, facts, namespace, retired)
        yield cleaned_at(f"{path}, line {lines[0][0]}", entity)
    if broken:
        number, line = broken[0]
        logger.warning(
            "%s: left out %d clauses that break the OBO grammar, the first in line %d: %s",
            path, len(broken), number, line[:80],
        )  # fmt: skip
    if nameless:
        logger.warning("%s: skipped %d terms without a name", path, nameless)


def term_entity(
    id: str, facts: Facts, namespace: str | None, retired: dict[str, list[str]]
) -> Entity:
    """The entity of a term that has a name.

    Args:
        id: Its id, such as "MONDO:0005301".
        facts: Its values by the tags of OBO.
        namespace: The type of a term that names none.
        retired: See ``retired_ids``.
    """
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
            id, facts = _parsed(path, lines, [])
            if "is_obsolete" in facts and len(facts.get("replaced_by", ())) == 1:
                replacement[id] = facts["replaced_by"][0]
    return retired_ids(replacement)


def retired_ids(replacement: dict[str, str]) -> dict[str, list[str]]:
    """The obsolete ids that each term replaces, from the term that each obsolete id names."""
    retired: dict[str, list[str]] = {}
    lasting = _lasting(replacement)
    for id in sorted(replacement):
        if lasting[id] is not None:
            retired.setdefault(lasting[id], []).append(id)
    return retired


def _lasting(replacement: dict[str, str]) -> dict[str, str | None]:
    """The id that each id leads to in the end; None if it leads into a circle."""
    lasting: dict[str, str | None] = {}
    for id in replacement:
        path = {}  # a set in the order of the path
        while id in replacement and id not in lasting and id not in path:
            path[id] = None
            id = replacement[id]
        end = lasting[id] if id in lasting else None if id in path else id
        lasting.update(dict.fromkeys(path, end))
    return lasting


def _terms(path: Path) -> Iterator[list[Line]]:
    """The lines of each term that are read here, with their numbers."""
    lines: list[Line] | None = None
    size = 0
    for number, line in numbered_lines(path):
        size += len(line)
        if line.startswith("["):
            if lines:
                yield lines
            lines, size = [] if line.startswith("[Term]") else None, 0
        elif lines is not None and line.partition(":")[0] in ("id", *_VALUES):
            if size > LONGEST_LINE:
                raise record_too_long(path, number)
            lines.append((number, line))
    if lines:
        yield lines


def _parsed(path: Path, lines: Sequence[Line], broken: list[Line]) -> tuple[str, Facts]:
    """The id of a term and its values by tag. Clauses that break the grammar go to ``broken``."""
    try:
        frame = _frame("\n".join(line for _, line in lines))
        return _text(frame.id), _facts(frame)
    except (SyntaxError, ValueError):
        return _parsed_line_by_line(path, lines, broken)


def _parsed_line_by_line(
    path: Path, lines: Sequence[Line], broken: list[Line]
) -> tuple[str, Facts]:
    """As ``_parsed``, for a term in which a clause breaks the grammar: each is parsed alone."""
    first, *others = lines
    try:
        id = _text(_frame(first[1]).id)
    except (SyntaxError, ValueError) as error:
        raise _not_obo(path, first) from error
    facts: Facts = {}
    for number, line in others:
        try:
            clauses = _clauses(line)
        except (SyntaxError, ValueError) as error:
            if line.startswith(("id:", "name:")):
                raise _not_obo(path, (number, line)) from error
            broken.append((number, line))
        else:
            for tag, values in clauses.items():
                facts.setdefault(tag, []).extend(values)
    return id, facts


def _clauses(line: str) -> Facts:
    """The values of a line, without its references where these break the grammar."""
    try:
        return _facts(_frame(f"id: x:1\n{line}"))
    except (SyntaxError, ValueError):
        quoted = _QUOTED.match(line)
        if quoted is None:
            raise
        return _facts(_frame(f"id: x:1\n{quoted[0]} []"))


def _frame(clauses: str) -> TermFrame:
    import fastobo

    return fastobo.loads(f"[Term]\n{clauses}\n", threads=1)[0]


def _not_obo(path: Path, line: Line) -> PelError:
    number, text = line
    return PelError(
        f"{path}, line {number}: cannot be parsed as OBO: {text[:80]!r}", "correct the line"
    )


def _facts(frame: TermFrame) -> Facts:
    """The values of a term's clauses, by tag. ``is_obsolete`` is there only if it is true."""
    facts: Facts = {}
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
