"""``pel kb build``, ``fetch`` and ``embed``: a knowledge base, of what, and with which vectors."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..errors import PelError
from ..kb.readers import ReadOptions, UmlsRecipe, format_names
from ..kb.readers.fetch_ontology import ONTOLOGIES, fetch_ontology
from .apps import KB, Address, Component, Engine, Pipeline, Sources, command, kb, sources_and_folder
from .terminal import counted, encoding, msg, progress_bar, reading

ALL = "all"
_NAMES = "\n".join(f"  {name:8}{what}" for name, (what, _) in ONTOLOGIES.items())


@command(kb, "build")
def build_cli(
    paths: Sources,
    mapping: Annotated[
        list[Path] | None, Option(help="SSSOM table of ids that mean the same; may be repeated")
    ] = None,
    by_xref: Annotated[
        bool,
        Option(
            "--by-xref",
            help="Also join records by cross-references that the mapping leads to, one a record",
        ),
    ] = False,
    format: Annotated[
        str | None, Option(help=f"{', '.join(format_names())} [default: detected from the files]")
    ] = None,
    column: Annotated[
        list[str] | None,
        Option(
            metavar="FIELD=COLUMN", help="Column of a table that holds a field; may be repeated"
        ),
    ] = None,
    preset: Annotated[str, Option(help="Recipe for UMLS: full or st21pv")] = "full",
    language: Annotated[list[str] | None, Option(help="UMLS: languages (LAT); or all")] = None,
    vocabulary: Annotated[list[str] | None, Option(help="UMLS: vocabularies (SAB); or all")] = None,
    type: Annotated[
        list[str] | None,
        Option(
            help="Types to keep, and those below them, by name, TUI or tree number; may be repeated"
        ),
    ] = None,
    without_type: Annotated[
        list[str] | None, Option(help="Types to leave out, and those below them; may be repeated")
    ] = None,
    include_suppressed: Annotated[
        bool, Option("--include-suppressed", help="UMLS: keep suppressed rows")
    ] = False,
) -> None:
    """Build a KB from ontologies.

    Records of several sources with the same id, or ids that mean the same by a mapping, become one
    entity, with name and definition of the first source. The other ids are kept as alternative ids.
    An existing KB is replaced. The new one has no vectors: make them with "kb embed".

    \b
    Examples:
      UMLS, whole or the subset of MedMentions ST21pv; ontologies joined by their UMLS ids; MeSH:
        python -m spacy pel kb build umls/2024AA/META kb
        python -m spacy pel kb build umls/2017AA/META kb --preset st21pv
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

    sources, out = sources_and_folder(paths)
    start = time.perf_counter()
    recipe = UmlsRecipe.preset(preset)
    filters = {"languages": language, "vocabularies": vocabulary, "types": type}
    chosen = {
        name: None if ALL in values else tuple(values) for name, values in filters.items() if values
    }
    recipe = recipe._replace(**chosen, suppressed=recipe.suppressed or include_suppressed)
    types = {"types": chosen.get("types") or [], "without_types": without_type or []}
    options = ReadOptions(umls=recipe, columns=_columns(column or []))
    joined = {"mappings": mapping or [], "by_xref": by_xref}
    made = build_from_sources(
        sources, out, **joined, **types, format=format, options=options, progress=reading
    )
    counts = made.settings["counts"]
    msg.good(
        f"Built {out}: {counts['entities']:,} entities with {counts['aliases']:,} aliases in "
        f"{time.perf_counter() - start:.1f} s"
    )
    msg.text(f"To link to it, embed it: python -m spacy pel kb embed {out} PIPELINE")


def _columns(choices: list[str]) -> dict[str, str]:
    """The field of each column, from choices of the form FIELD=COLUMN."""
    fields: dict[str, str] = {}
    for choice in choices:
        field, equals, column = choice.partition("=")
        if not (field and equals and column):
            remedy = "write FIELD=COLUMN, as in concept_id=GeneID"
            raise PelError(f"--column {choice}: names no column", remedy)
        if column in fields:
            raise PelError(f"--column: {column} is named twice", "a column is for one field")
        fields[column] = field
    return fields


@command(
    kb,
    "fetch",
    help=f"""Download an open ontology, and check that it can be read.

The file comes from the address of its authors (its PURL). It appears whole, or not at all.

\b
{_NAMES}

\b
Example:
  python -m spacy pel kb fetch mondo
  python -m spacy pel kb build mondo.obo kb
""",
)
def fetch_cli(
    name: Annotated[str, Argument(metavar="NAME", help="Name of an ontology: see above")],
    to: Annotated[Path, Option(help="Folder that the file goes to")] = Path("."),
) -> None:
    with progress_bar(desc="Fetching", unit="B", unit_scale=True, unit_divisor=1024) as bar:

        def received(n: int, total: int | None) -> None:
            bar.total = total
            bar.update(n)

        fetched = fetch_ontology(
            name, to, received=received, progress=lambda entities: counted(entities, "Reading")
        )
    release = f" of {fetched.version}" if fetched.version else ""
    msg.good(f"Fetched {fetched.path}: {fetched.entities:,} entities{release}")
    msg.text(f"To build a KB of it: python -m spacy pel kb build {fetched.path} KB")


@command(kb, "embed")
def embed_cli(
    folder: KB,
    pipeline: Pipeline,
    component: Component = "proxy_linker",
    reuse: Annotated[
        Path | None,
        Option(help="An older KB with vectors of this pipeline; what is unchanged is copied"),
    ] = None,
    dtype: Annotated[str, Option(help="Type of vectors: float32, float16, int8 or auto")] = "auto",
    index: Annotated[str, Option(help="Kind of the index: exact, approximate or auto")] = "auto",
    dim: Annotated[int | None, Option(help="Numbers in which a vector is stored")] = None,
    alike: Annotated[
        float | None,
        Option(metavar="COSINE", help="Names of an entity as alike as this share a code"),
    ] = None,
    engine: Engine = "local",
    address: Address = None,
) -> None:
    """Give a KB the vectors of a pipeline.

    They replace the vectors that the KB has, also those of the mentions that it has learnt. Run this
    after each training: a linker refuses vectors of another encoder. After an interruption, run the
    same command again: it goes on where it was.

    With --dim, each vector is stored in fewer numbers (principal components). Search then needs less
    memory and time, with some loss of recall, which "pel evaluate" measures. To win it back, train the
    mention encoder against the reduced KB (project/configs/mentions.cfg).

    With --alike 0.95, similar names of an entity, such as "lung cancer" and "lung cancers", share a
    code in the index. This halves the time of a search among 50,000 to 2 million vectors.

    \b
    Examples:
      python -m spacy pel kb embed kb training/model-best
      python -m spacy pel kb embed kb training/model-best --dim 128 --alike 0.95
      python -m spacy pel kb embed umls-2025AA training/model-best --reuse umls-2024AB
    """
    from ..jobs.embed import update_vectors
    from ..pipeline.pipelines import linker_of, load_pipeline

    nlp = load_pipeline(pipeline)
    linker = linker_of(nlp, component)
    start = time.perf_counter()
    stored = {"dtype": dtype, "index": index, "dim": dim, "alike": alike, "reuse": reuse}
    where = {"engine": engine, "address": address, "nlp": nlp}
    made = update_vectors(folder, linker, **stored, **where, progress=encoding, report=msg.info)
    if made is None:
        msg.good(f"{folder} has the vectors of this encoder already")
        return
    rows = made.settings["vectors"]["rows"]
    msg.good(
        f"Embedded {folder}: {len(made):,} entities, {rows:,} vectors of {made.dim} dimensions, "
        f"one for each {made.row_kind}, in {time.perf_counter() - start:.1f} s"
    )
