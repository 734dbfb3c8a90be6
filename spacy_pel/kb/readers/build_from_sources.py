"""Build one knowledge base from source files, such as ontologies and a UMLS release."""

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

_MAX_SHOWN = 20  # types in an error


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
    word_forms: bool = False,
    progress: Callable[[Iterable[Entity], str], Iterable[Entity]] = lambda entities, name: entities,
) -> KnowledgeBase:
    """Build a KB from one or several sources, and replace an existing one.

    Records with the same id, or with ids that a mapping equates, become one entity with the name and
    the definition of the first source. See also ``build_kb``.

    Args:
        sources: Files or folders to read.
        out: The folder of the new KB.
        mappings: SSSOM tables of equivalent ids.
        retired: Tables of retired ids; see ``with_retired``.
        format: A name in ``SOURCE_FORMATS`` for all sources. None: detected from the files.
        types: The types of entities to keep; see ``of_types``. Empty: all.
        without_types: The types of entities to leave out.
        options: Options that only some formats use.
        word_forms: As in ``build_kb``.
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
    left_out = [source.left_out for source in opened.values()]
    return build_kb(
        entities,
        out,
        types=defined,
        sources=names,
        left_out=left_out,
        word_forms=word_forms,
    )


def source_name(path: Path, version: str | None) -> str:
    """Return the name of a source in the settings of a KB."""
    return f"{path} ({version})" if version else str(path)


def with_retired(entities: Iterable[Entity], tables: Sequence[Path]) -> Iterator[Entity]:
    """Add the retired ids of tables to entities.

    Each line of a table has a retired id, a tab, and the current id. More columns may follow.

    Raises:
        PelError: A line has no tab; or, at the end, no entity has one of the current ids.
    """
    retired_by_id: defaultdict[str, list[str]] = defaultdict(list)
    for path in tables:
        for number, line in numbered_lines(path):
            retired, tab, rest = line.partition("\t")
            if not tab:
                remedy = "write the retired id, a tab and the current id"
                raise PelError(f"{path}: line {number} has no tab", remedy)
            retired_by_id[rest.partition("\t")[0].strip()].append(retired.strip())
    is_used = False
    for entity in entities:
        ids = (entity.concept_id, *entity.alt_ids)
        new = [retired for id in ids for retired in retired_by_id.get(id, ())]
        is_used = is_used or bool(new)
        yield entity._replace(retired_ids=(*entity.retired_ids, *new)) if new else entity
    if not is_used:
        names = ", ".join(map(str, tables))
        problem = f"{names}: no entity has one of the {len(retired_by_id):,} current ids"
        raise PelError(problem, "give the table that belongs to these sources")


def of_types(
    entities: Iterable[Entity],
    defined: Sequence[SemanticType],
    kept: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> Iterator[Entity]:
    """Yield the entities that have a type to keep (none: all) and no type to leave out.

    A type is a name, code, or tree number that the sources define. It includes the types below it. It may
    also be the name of a type that only entities have, or "" for entities without a type.

    Raises:
        PelError: No entity has one of the types (at the end).
    """
    meant = {
        text: {text, *(type.name for type in types_meant(text, defined))}
        for text in (*kept, *left_out)
    }
    kept_names = {name for text in kept for name in meant[text]}
    left_out_names = {name for text in left_out for name in meant[text]}
    seen: set[str] = set()
    for entity in entities:
        types = set(entity.types or ("",))
        seen |= types
        if (not kept or types & kept_names) and not types & left_out_names:
            yield entity
    for text, names in meant.items():
        if not names & seen:
            known = ", ".join(sorted(filter(None, seen))[:_MAX_SHOWN]) or "none"
            raise PelError(f"no entity has the type {text!r}", f"choose one of: {known}")
