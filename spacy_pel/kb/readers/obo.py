"""OBO, the flat-file format of biomedical ontologies.

fastobo parses one term at a time, so memory does not grow with the file. Published files break the
grammar in places that do not matter here, mostly in the references after a definition. Such a clause
is read without its references. If it still breaks the grammar, it is left out and counted. (pronto
reads no such file at all.)
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

from ...errors import PelError
from ...system.lines import LONGEST_LINE, numbered_lines, record_too_long
from .entity_source import ReadOptions, Source, SourceFormat, or_gzipped
from .ontology_classes import Facts, class_entities

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
    """The terms of an ``.obo`` or ``.obo.gz`` file, as ``class_entities`` makes them.

    The type of a term is its namespace, or else the default namespace of the file. Frames with the
    same id are joined, as the format says; so files may be concatenated. The version is
    ``data-version``.

    Reading the entities raises PelError, with file and line, for a term whose id or name cannot be
    parsed, and for what ``cleaned`` refuses.
    """
    header: dict[str, str] = {}
    for _, line in numbered_lines(path):
        if line.startswith("["):
            break
        tag, _, value = line.partition(":")
        header.setdefault(tag, value.strip())
    entities = class_entities(path, _terms(path), header.get("default-namespace"))
    return Source(entities, version=header.get("data-version"))


def _terms(path: Path) -> Iterator[tuple[str, str, Facts]]:
    """Place, id and values of each term."""
    broken: list[Line] = []
    for lines in _frames(path):
        yield f"{path}, line {lines[0][0]}", *_parsed(path, lines, broken)
    if broken:
        number, line = broken[0]
        logger.warning(
            "%s: left out %d clauses that break the OBO grammar, the first in line %d: %s",
            path, len(broken), number, line[:80],
        )  # fmt: skip


def _frames(path: Path) -> Iterator[list[Line]]:
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


def _parsed(path: Path, lines: list[Line], broken: list[Line]) -> tuple[str, Facts]:
    """The id of a term and its values by tag. Clauses that break the grammar go to ``broken``."""
    try:
        return _term("\n".join(line for _, line in lines))
    except (SyntaxError, ValueError):
        pass  # a clause breaks the grammar: each is parsed alone
    (first, id_line), *others = lines
    try:
        id, facts = _term(id_line)
    except (SyntaxError, ValueError) as error:
        raise _not_obo(path, first, id_line) from error
    for number, line in others:
        quoted = _QUOTED.match(line)
        for text in (line, f"{quoted[0]} []") if quoted else (line,):
            try:
                _, clauses = _term(f"id: x:1\n{text}")
            except (SyntaxError, ValueError) as error:
                if line.startswith(("id:", "name:")):
                    raise _not_obo(path, number, line) from error
            else:
                for tag, values in clauses.items():
                    facts.setdefault(tag, []).extend(values)
                break
        else:
            broken.append((number, line))
    return id, facts


def _not_obo(path: Path, number: int, line: str) -> PelError:
    problem = f"{path}, line {number}: cannot be parsed as OBO: {line[:80]!r}"
    return PelError(problem, "correct the line")


def _term(clauses: str) -> tuple[str, Facts]:
    """The id and the values of a term's clauses; SyntaxError or ValueError from fastobo.

    ``is_obsolete`` is among the values only if it is true.
    """
    import fastobo

    frame = fastobo.loads(f"[Term]\n{clauses}\n", threads=1)[0]
    facts: Facts = {}
    for clause in frame:
        tag = clause.raw_tag()
        value = _VALUES[tag](clause)
        if value:
            facts.setdefault(tag, []).append(_text(value))
    return _text(frame.id), facts


def _text(value: Any) -> str:
    """A text, or an identifier without OBO's backslashes."""
    if hasattr(value, "local"):
        return f"{value.prefix}:{value.local}"
    return str(getattr(value, "unescaped", value))


FORMAT = SourceFormat("obo", read_obo, or_gzipped(".obo"))
