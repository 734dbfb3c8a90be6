"""``pel kb build``: from source files to a knowledge base."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from ..errors import PelError
from ..kb.readers import ReadOptions, UmlsRecipe, format_names
from .apps import command, kb
from .progress_bar import counted
from .terminal import msg

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
            help="Also join records by cross-references. One counts if the mapping leads to it, it is "
            "the only such one of its record, and no other record of the source has it",
        ),
    ] = False,
    format: Annotated[
        str | None,
        typer.Option(help=f"{', '.join(format_names())} [default: detected from the files]"),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=COLUMN",
            help="Name of the column of a table that holds a field; may be repeated",
        ),
    ] = None,
    preset: Annotated[str, typer.Option(help="Recipe for UMLS: full or st21pv")] = "full",
    language: Annotated[
        list[str] | None, typer.Option(help="UMLS: languages (LAT) to keep; or all")
    ] = None,
    vocabulary: Annotated[
        list[str] | None, typer.Option(help="UMLS: vocabularies (SAB) to keep; or all")
    ] = None,
    type: Annotated[
        list[str] | None,
        typer.Option(
            help="Types to keep, with the types below them, by name, TUI or tree number; or all; may "
            "be repeated"
        ),
    ] = None,
    without_type: Annotated[
        list[str] | None,
        typer.Option(help="Types to leave out, with the types below them; may be repeated"),
    ] = None,
    include_suppressed: Annotated[
        bool, typer.Option("--include-suppressed", help="UMLS: keep suppressed rows")
    ] = False,
) -> None:
    """Build a KB from ontologies.

    Several sources become one KB. Records with the same id become one entity, and so do records
    whose ids mean the same by a mapping. The name and the definition are those of the first source.
    The ids of the others are kept as alternative ids.

    An existing KB is replaced. The new one has no vectors: make them with "kb embed".

    \b
    Examples:
      UMLS with all English names, or the subset of MedMentions ST21pv:
        python -m spacy pel kb build umls/2024AA/META kb
        python -m spacy pel kb build umls/2017AA/META kb --preset st21pv
      Ontologies in OBO, joined by their UMLS ids; MeSH in XML:
        python -m spacy pel kb build mondo.obo doid.obo kb --mapping mondo_umls.sssom.tsv --by-xref
        python -m spacy pel kb build desc2024.xml supp2024.xml kb
      A table, with the names of its columns:
        python -m spacy pel kb build genes.tsv kb --column concept_id=GeneID
          --column canonical_name=Symbol --column aliases=Synonyms
      SNOMED CT without its organisms, RxNorm, and a part of a KB that was built before:
        python -m spacy pel kb build SnomedCT_InternationalRF2 kb --without-type organism
        python -m spacy pel kb build RxNorm_full kb
        python -m spacy pel kb build kb diseases --type disorder
    """
    from ..kb.readers.build_from_sources import build_from_sources

    if len(paths) < 2:
        raise PelError(
            f"{paths[0]}: the last path is the folder to make", "name it after the source"
        )
    *sources, out = paths
    start = time.perf_counter()
    recipe = chosen_recipe(preset, language, vocabulary, type, include_suppressed)
    made = build_from_sources(
        sources,
        out,
        mappings=mapping or [],
        by_xref=by_xref,
        format=format,
        types=[] if ALL in (type or ()) else type or [],
        without_types=without_type or [],
        options=ReadOptions(umls=recipe, columns=columns_of(column or [])),
        progress=lambda entities, name: counted(entities, f"Reading {name}", " entities"),
    )
    counts = made.settings["counts"]
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
    """A preset, changed by options.

    Args:
        preset: The name of the preset.
        languages: The languages to keep; "all" among them keeps all. None: those of the preset.
        vocabularies: The same for vocabularies.
        types: The same for semantic types.
        include_suppressed: Whether suppressed rows are kept, whatever the preset says.

    Raises:
        PelError: There is no such preset.
    """
    recipe = UmlsRecipe.preset(preset)
    filters = {"languages": languages, "vocabularies": vocabularies, "types": types}
    chosen = {
        name: None if ALL in values else tuple(values) for name, values in filters.items() if values
    }
    return recipe._replace(**chosen, suppressed=recipe.suppressed or include_suppressed)


def columns_of(choices: list[str]) -> dict[str, str]:
    """The field of each column, from choices of the form FIELD=COLUMN.

    Raises:
        PelError: A choice has another form, or two choices have the same column.
    """
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
