"""``pel kb build``: from source files to a knowledge base."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from ..errors import PelError
from ..kb import Entity, build_kb
from ..kb.readers import ReadOptions, UmlsRecipe, format_names, open_source
from ..kb.readers.sssom import mapping_version, read_mapping
from ..kb.records.merging import merged
from .apps import command, kb, msg

ALL = "all"


@command(kb, "build")
def build_cli(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE... KB", help="Files or folders to read; last, the folder to make"
        ),
    ],
    mapping: Annotated[
        list[Path] | None,
        typer.Option(help="SSSOM table of ids that mean the same; may be repeated"),
    ] = None,
    by_xref: Annotated[
        bool,
        typer.Option(
            "--by-xref",
            help="Also join a record that refers to one id alone to which the mapping leads, and "
            "is the only one of its source to do so",
        ),
    ] = False,
    format: Annotated[
        str | None,
        typer.Option(help=f"{', '.join(format_names())}; where it cannot be told from the files"),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=COLUMN", help="The column of a table that holds a field; may be repeated"
        ),
    ] = None,
    preset: Annotated[str, typer.Option(help="Recipe for UMLS: full or st21pv")] = "full",
    language: Annotated[
        list[str] | None, typer.Option(help="UMLS: languages (LAT) to keep, or all")
    ] = None,
    vocabulary: Annotated[
        list[str] | None, typer.Option(help="UMLS: vocabularies (SAB) to keep, or all")
    ] = None,
    type: Annotated[
        list[str] | None,
        typer.Option(
            help="UMLS: types to keep, with their descendants, by TUI, name or tree number, or all"
        ),
    ] = None,
    include_suppressed: Annotated[
        bool, typer.Option("--include-suppressed", help="UMLS: keep suppressed rows")
    ] = False,
) -> None:
    """Build a KB from ontologies.

    Several sources are merged: records with the same id, or with ids that a mapping says mean the
    same, become one. The first source gives the name and the definition; the other ids stay as
    alternative ids. A KB that is there is replaced. It has no vectors yet: make them with "kb
    embed".

    \b
    Examples:
      UMLS, all English names, or the subset of MedMentions ST21pv:
        python -m spacy pel kb build umls/2024AA/META kb
        python -m spacy pel kb build umls/2017AA/META kb --preset st21pv
      Ontologies in OBO and MeSH in XML, merged by way of UMLS:
        python -m spacy pel kb build mondo.obo doid.obo kb --mapping mondo_umls.sssom.tsv --by-xref
        python -m spacy pel kb build desc2024.xml supp2024.xml kb
      A table whose columns have names of their own:
        python -m spacy pel kb build genes.tsv kb --column concept_id=GeneID
          --column canonical_name=Symbol --column aliases=Synonyms
    """
    if len(paths) < 2:
        raise PelError(
            f"{paths[0]}: the last path is the folder to make", "name it after the source"
        )
    if by_xref and not mapping:
        raise PelError(
            "--by-xref without a --mapping", "give the --mapping whose ids the records refer to"
        )
    *inputs, out = paths
    start = time.perf_counter()
    recipe = chosen_recipe(preset, language, vocabulary, type, include_suppressed)
    options = ReadOptions(umls=recipe, columns=columns_of(column or []))
    opened = {path: open_source(path, format=format, options=options) for path in inputs}
    if len(opened) == 1 and not mapping:
        [(path, source)] = opened.items()
        entities: Iterable[Entity] = _counted(source.entities, path)
    else:
        entities = merged(
            [_traced(_counted(source.entities, path), path) for path, source in opened.items()],
            read_mapping(mapping or []),
            by_xref=by_xref,
        )
    made = build_kb(
        entities,
        out,
        types=(type for source in opened.values() for type in source.types),
        sources=[
            *(source_name(path, source.version) for path, source in opened.items()),
            *(source_name(path, mapping_version(path)) for path in mapping or []),
        ],
    )
    counts = made.manifest["counts"]
    msg.good(
        f"Built {out}: {counts['entities']:,} entities with {counts['aliases']:,} aliases in "
        f"{time.perf_counter() - start:.1f} s"
    )
    msg.text(f"To link to it, embed it: python -m spacy pel kb embed {out} PIPELINE")


def chosen_recipe(
    preset: str,
    languages: list[str] | None = None,
    vocabularies: list[str] | None = None,
    types: list[str] | None = None,
    include_suppressed: bool = False,
) -> UmlsRecipe:
    """A preset with the choices that were made; "all" lifts a filter. PelError for a bad preset."""
    recipe = UmlsRecipe.preset(preset)
    filters = {"languages": languages, "vocabularies": vocabularies, "types": types}
    chosen = {
        name: None if ALL in values else tuple(values) for name, values in filters.items() if values
    }
    return recipe._replace(**chosen, suppressed=recipe.suppressed or include_suppressed)


def columns_of(choices: list[str]) -> dict[str, str]:
    """The field of each column, from choices FIELD=COLUMN; PelError for another form."""
    pairs = [choice.partition("=") for choice in choices]
    for choice, (field, equals, column) in zip(choices, pairs):
        if not (field and equals and column):
            raise PelError(
                f"--column {choice}: names no column", "write FIELD=COLUMN, as in concept_id=GeneID"
            )
    columns = [column for _, _, column in pairs]
    for column in columns:
        if columns.count(column) > 1:
            raise PelError(f"--column: {column} is named twice", "a column is for one field")
    return {column: field for field, _, column in pairs}


def _counted(entities: Iterable[Entity], path: Path) -> Iterable[Entity]:
    from tqdm import tqdm

    return tqdm(entities, desc=f"Reading {path.name}", unit=" entities")


def _traced(entities: Iterable[Entity], path: Path) -> Iterator[Entity]:
    """The entities, each with the file as its source where it names none."""
    for entity in entities:
        yield entity if entity.sources else entity._replace(sources=(path.name,))


def source_name(path: Path, version: str | None) -> str:
    """How the manifest names a source."""
    return f"{path} ({version})" if version else str(path)
