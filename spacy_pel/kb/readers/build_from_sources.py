"""From source files, such as ontologies and a UMLS release, to one knowledge base."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from ...errors import PelError
from ...io.lines import numbered_lines
from .. import Entity, KnowledgeBase, build_kb
from ..build import united
from ..records.entity import renamed
from ..records.semantic_types import SemanticType, types_meant
from .entity_source import ReadOptions
from .source_formats import open_source
from .tables import read_mapping

_SHOWN = 20  # types in an error


def build_from_sources(
    sources: Sequence[Path],
    out: Path,
    *,
    mappings: Sequence[Path] = (),
    retired: Sequence[Path] = (),
    format: str | None = None,
    types: Sequence[str] = (),
    without_types: Sequence[str] = (),
    options: ReadOptions = ReadOptions(),
    in_any_order: bool = False,
    progress: Callable[[Iterable[Entity], str], Iterable[Entity]] = lambda entities, name: entities,
) -> KnowledgeBase:
    """Build a KB of one or several sources. An existing KB is replaced.

    Records with the same id become one entity, and so do records whose ids mean the same by a mapping.
    The name and the definition are those of the first source. For the rest see ``build_kb``.

    Args:
        sources: Files or folders to read.
        out: The folder to make.
        mappings: SSSOM tables of ids that mean the same.
        retired: Tables of old ids; see ``with_retired``.
        format: A name in ``SOURCE_FORMATS`` for all sources. None: detected from the files.
        types: The types of entities that are kept; see ``of_types``. None given: all.
        without_types: The types of entities that are left out.
        options: Choices that only some formats know.
        progress: Wraps the entities of a source, with its file name.

    Raises:
        PelError: A source or mapping is missing or faulty, or no entity has one of the types.
    """
    opened = {path: open_source(path, format=format, options=options) for path in sources}
    streams = {path: progress(source.entities, path.name) for path, source in opened.items()}
    if len(opened) == 1 and not mappings:
        [entities] = streams.values()
    else:
        named = (
            entity if entity.sources else entity._replace(sources=(path.name,))
            for path, stream in streams.items()
            for entity in stream
        )
        entities = renamed(named, read_mapping(mappings))
    if retired:
        entities = with_retired(entities, retired)
    defined = [type for source in opened.values() for type in source.types]
    if types or without_types:
        entities = of_types(united(entities), defined, types, without_types)
    names = [source_name(path, source.version) for path, source in opened.items()]
    names += map(str, (*mappings, *retired))
    return build_kb(entities, out, types=defined, sources=names, in_any_order=in_any_order)


def source_name(path: Path, version: str | None) -> str:
    """The name of a source in a KB that is built of it."""
    return f"{path} ({version})" if version else str(path)


def with_retired(entities: Iterable[Entity], tables: Sequence[Path]) -> Iterator[Entity]:
    """The entities, which are found by retired ids as well; at the end a PelError if none has one.

    A table has lines of an old id, a tab, and the id of the entity now; more columns may follow.
    """
    old: defaultdict[str, list[str]] = defaultdict(list)
    for path in tables:
        for number, line in numbered_lines(path):
            retired, tab, rest = line.partition("\t")
            if not tab:
                remedy = "write the old id, a tab and the id of today"
                raise PelError(f"{path}: line {number} has no tab", remedy)
            old[rest.partition("\t")[0].strip()].append(retired.strip())
    is_used = False
    for entity in entities:
        gone = [old_id for id in (entity.concept_id, *entity.alt_ids) for old_id in old.get(id, ())]
        is_used |= bool(gone)
        yield entity._replace(retired_ids=(*entity.retired_ids, *gone)) if gone else entity
    if not is_used:
        where = ", ".join(map(str, tables))
        problem = f"{where}: no entity has one of the {len(old):,} ids of today"
        raise PelError(problem, "give the table that belongs to these sources")


def of_types(
    entities: Iterable[Entity],
    defined: Sequence[SemanticType],
    kept: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> Iterator[Entity]:
    """The entities that have one of the kept types, if any is given, and none that is left out.

    A type is a name, code or tree number that the sources define, with the types below it; or the name of
    any type of an entity; or "" for entities without one. At the end a PelError for a type that none has.
    """
    wanted = {
        text: {text, *(type.name for type in types_meant(text, defined))}
        for text in (*kept, *left_out)
    }
    names = set().union(*map(wanted.get, kept))
    others = set().union(*map(wanted.get, left_out))
    seen: set[str] = set()
    for entity in entities:
        own = set(entity.types or ("",))
        seen |= own
        if (not kept or own & names) and not own & others:
            yield entity
    for text, meant in wanted.items():
        if not meant & seen:
            known = ", ".join(sorted(filter(None, seen))[:_SHOWN]) or "none"
            raise PelError(f"no entity has the type {text!r}", f"choose of: {known}")
