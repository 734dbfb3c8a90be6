"""``pel kb``: the commands about knowledge bases."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from ..errors import PelError
from ..kb.readers import SOURCE_FORMATS, ReadOptions, UmlsRecipe
from ..kb.readers.fetch_ontology import ONTOLOGIES, fetch_ontology
from .apps import (
    KB,
    Address,
    AsJson,
    Component,
    Engine,
    File,
    Files,
    Pipeline,
    Sources,
    Text,
    Texts,
    change,
    command,
    kb,
    sources_and_folder,
)
from .terminal import counted, encoding, msg, progress_bar, reading, say, say_error

if TYPE_CHECKING:
    from spacy.language import Language

    from ..kb.change import ChangeCounts
    from ..pipeline.proxy_linker import ProxyLinker

ALL = "all"
_CORPORA = 'As of "pel evaluate"; with --acronyms any texts'
_NAMES = "\n".join(f"  {name:8}{what}" for name, (what, _) in ONTOLOGIES.items())


@command(kb, "build")
def build_cli(
    paths: Sources,
    mapping: Annotated[Files, Option(help="SSSOM table; may be repeated")] = None,
    retired: Annotated[Files, Option(help="Table of old and new ids; may be repeated")] = None,
    format: Annotated[Text, Option(help=f"{', '.join(SOURCE_FORMATS)} [default: detected]")] = None,
    column: Annotated[Texts, Option(metavar="FIELD=COLUMN", help="Of a table; repeatable")] = None,
    preset: Annotated[str, Option(help="Recipe for UMLS: full or st21pv")] = "full",
    language: Annotated[Texts, Option(help="UMLS: languages (LAT); or all")] = None,
    vocabulary: Annotated[Texts, Option(help="UMLS: vocabularies (SAB); or all")] = None,
    type: Annotated[Texts, Option(help="Types to keep; may be repeated")] = None,
    without_type: Annotated[Texts, Option(help="Types to leave out; likewise")] = None,
    in_any_order: Annotated[bool, Option("--in-any-order", help="Of words: see above")] = False,
) -> None:
    """Build a KB from ontologies.

    Records of several sources with the same id, or ids that mean the same by a mapping, become one
    entity, with name and definition of the first source. Types are given by name, TUI or tree number;
    those below them go along. With --in-any-order a name is also found by its words in any order and
    form, and with words that other names of the KB use in the same sense. With --retired an entity is
    also found by ids that it had before: a table of old id, tab, id of today.

    An existing KB is replaced. The new one has no vectors: make them with "kb embed".

    \b
    Examples:
      python -m spacy pel kb build umls/2017AA/META kb --preset st21pv
      python -m spacy pel kb build mondo.obo doid.obo kb --mapping mondo_exactmatch_doid.sssom.tsv
      python -m spacy pel kb build desc2024.xml supp2024.xml kb
      python -m spacy pel kb build genes.tsv kb --column concept_id=GeneID
        --column canonical_name=Symbol --column aliases=Synonyms
      python -m spacy pel kb build SnomedCT_InternationalRF2 kb --without-type organism
      python -m spacy pel kb build kb diseases --type disorder
    """
    from ..kb.readers.build_from_sources import build_from_sources

    sources, out = sources_and_folder(paths)
    recipe = UmlsRecipe.preset(preset)
    filters = {"languages": language, "vocabularies": vocabulary, "types": type}
    chosen = {
        name: None if ALL in values else tuple(values) for name, values in filters.items() if values
    }
    recipe = recipe._replace(**chosen)
    types = {"types": chosen.get("types") or [], "without_types": without_type or []}
    shown = {"in_any_order": in_any_order, "progress": reading}
    options = ReadOptions(umls=recipe, columns=columns_of(column or []))
    joined = {"mappings": mapping or [], "retired": retired or []}
    made = build_from_sources(
        sources, out, **joined, **types, **shown, format=format, options=options
    )
    counts = made.settings["counts"]
    msg.good(f"Built {out}: {counts['entities']:,} entities with {counts['aliases']:,} aliases")
    msg.text(f"To link to it, embed it: python -m spacy pel kb embed {out} PIPELINE")


def columns_of(choices: list[str]) -> dict[str, str]:
    """The field of each column, from choices of the form FIELD=COLUMN."""
    fields: dict[str, str] = {}
    for choice in choices:
        field, _, column = choice.partition("=")
        if not (field and column) or column in fields:
            remedy = "write FIELD=COLUMN, as in concept_id=GeneID, once for a column"
            raise PelError(f"--column {choice}: names no column, or one a second time", remedy)
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
    to: Annotated[Path, Option(help="Folder that the file goes to")] = Path(),
) -> None:
    with progress_bar(desc="Fetching", unit="B", unit_scale=True, unit_divisor=1024) as bar:

        def received(n: int, total: int | None) -> None:
            bar.total = total
            bar.update(n)

        path, n_entities, version = fetch_ontology(
            name, to, received=received, progress=lambda entities: counted(entities, "Reading")
        )
    release = f" of {version}" if version else ""
    msg.good(f"Fetched {path}: {n_entities:,} entities{release}")
    msg.text(f"To build a KB of it: python -m spacy pel kb build {path} KB")


@command(kb, "embed")
def embed_cli(
    folder: KB,
    pipeline: Pipeline,
    component: Component = "proxy_linker",
    reuse: Annotated[File, Option(help="An older KB; what is unchanged is copied")] = None,
    dtype: Annotated[str, Option(help="Type of vectors: float32, float16, int8 or auto")] = "auto",
    index: Annotated[str, Option(help="Kind of the index: exact, approximate or auto")] = "auto",
    dim: Annotated[int | None, Option(help="Numbers in which a vector is stored")] = None,
    alike: Annotated[float | None, Option(help="Cosine from which names share a code")] = None,
    engine: Engine = "local",
    address: Address = None,
) -> None:
    """Give a KB the vectors of a pipeline.

    They replace the vectors that the KB has, also those of the mentions that it has learnt. Run this
    after each training: a linker refuses vectors of another encoder. After an interruption, run the
    same command again: it goes on where it was.

    --dim stores each vector in fewer numbers (principal components): search needs less memory and time,
    and loses some recall. --alike 0.95 lets similar names of an entity, such as "lung cancer" and "lung
    cancers", share a code of the index: search among 50,000 to 2 million vectors takes half the time.

    \b
    Examples:
      python -m spacy pel kb embed kb training/model-best
      python -m spacy pel kb embed kb training/model-best --dim 128 --alike 0.95
      python -m spacy pel kb embed umls-2025AA training/model-best --reuse umls-2024AB
    """
    from ..batch.embed import embed_kb
    from ..kb import KnowledgeBase
    from ..kb.location import kb_folder, kb_to_change
    from ..pipeline.pipelines import linker_of, load_pipeline

    folder, reuse = kb_to_change(folder), reuse and kb_folder(reuse)
    nlp = load_pipeline(pipeline)
    linker = linker_of(nlp, component)
    with KnowledgeBase.open(folder) as kb:
        before = kb.settings["checksum"]
    stored = {"dtype": dtype, "index": index, "dim": dim, "alike": alike, "reuse": reuse}
    where = {"engine": engine, "address": address, "nlp": nlp}
    made = embed_kb(folder, linker, **stored, **where, progress=encoding)
    if made.settings["checksum"] == before:
        msg.good(f"{folder} has the vectors of this encoder already")
        return
    rows = made.settings["vectors"]["rows"]
    msg.good(
        f"Embedded {folder}: {len(made):,} entities, {rows:,} vectors of {made.dim} dimensions, "
        f"one for each {made.index_unit}"
    )


_ENTITIES = 'What "kb build" reads, or a KB'
Entities = Annotated[Path, Argument(metavar="SOURCE", help=_ENTITIES)]
EntitiesIfAny = Annotated[File, Argument(metavar="[SOURCE]", help=_ENTITIES)]
Encoder = Annotated[
    Text,
    Option("--pipeline", help="What made the KB's vectors, if any [default: KB, if it is one]"),
]
Mapping = Annotated[File, Option(help="SSSOM table of ids")]
SourceFormat = Annotated[Text, Option("--format", help='Format of SOURCE, as for "kb build"')]
Columns = Annotated[
    Texts, Option("--column", metavar="FIELD=COLUMN", help='Of a table, as for "kb build"')
]
Synonyms = Annotated[
    Texts, Option("--synonym", metavar="ID=NAME", help="Add a name to an entity; repeatable")
]


@command(change, "add")
def add_cli(
    folder: KB,
    source: EntitiesIfAny = None,
    synonym: Synonyms = None,
    pipeline: Encoder = None,
    component: Component = "proxy_linker",
    format: SourceFormat = None,
    column: Columns = None,
) -> None:
    """Add entities, or synonyms, to a KB.

    Only what is new is encoded and written, so the size of the KB does not matter. An id that the KB
    has already is refused. SOURCE may be a table with the columns "id", "name" and "synonyms" (separated
    by | or ;). With --synonym an entity that the KB has gets one more name.

    \b
    Examples:
      python -m spacy pel kb change add my_pipeline drugs.csv
      python -m spacy pel kb change add my_pipeline --synonym D003924="sugar disease"
      python -m spacy pel kb change add kb new.jsonl --pipeline training/model-best
    """
    if bool(source) == bool(synonym):
        raise PelError("give either SOURCE or --synonym", 'as in --synonym D003924="sugar disease"')
    if source:
        _change("add", folder, source, pipeline, component, format, column)
        return
    from ..curation.kb_encoder import add_synonyms

    pairs = [(id.strip(), name.strip()) for id, _, name in (s.partition("=") for s in synonym)]
    if wrong := [text for text, (id, name) in zip(synonym, pairs) if not (id and name)]:
        remedy = 'write ID=NAME, as in D003924="sugar disease"'
        raise PelError(f"--synonym {wrong[0]}: lacks an id or a name", remedy)
    kb, linker = _kb_and_linker(folder, pipeline, component)
    _report(folder, add_synonyms(kb, pairs, linker))


@command(change, "update")
def update_cli(
    folder: KB,
    source: Entities,
    pipeline: Encoder = None,
    component: Component = "proxy_linker",
    format: SourceFormat = None,
    column: Columns = None,
) -> None:
    """Replace the records of entities in a KB.

    Only records that differ are encoded and written. An id that the KB does not have is refused.

    \b
    Example:
      python -m spacy pel kb change update kb corrected.jsonl --pipeline training/model-best
    """
    _change("update", folder, source, pipeline, component, format, column)


@command(change, "merge")
def merge_cli(
    folder: KB,
    source: Entities,
    mapping: Mapping = None,
    pipeline: Encoder = None,
    component: Component = "proxy_linker",
    format: SourceFormat = None,
    column: Columns = None,
) -> None:
    """Merge entities into a KB.

    An entity whose id the KB has is joined with that one: it keeps its name and definition, and gets
    the new names, types and ids. The other entities are added.

    \b
    Example:
      python -m spacy pel kb change merge kb mondo.obo --mapping mondo.sssom.tsv --pipeline model-best
    """
    _change("merge", folder, source, pipeline, component, format, column, mapping)


def _change(
    kind: str,
    given: Path,
    source: Path,
    pipeline: str | None,
    component: str,
    format: str | None,
    column: list[str] | None,
    mapping: Path | None = None,
) -> None:
    """Change the KB that is given by the entities of a source, and print what was done."""
    from ..curation.kb_encoder import change_from_source

    folder, linker = _kb_and_linker(given, pipeline, component)
    read = {"format": format, "columns": columns_of(column or []), "mapping": mapping}
    shown = partial(counted, desc="Reading")
    counts = change_from_source(kind, folder, source, linker=linker, **read, progress=shown)
    _report(given, counts)


def _kb_and_linker(
    given: Path, pipeline: str | None, component: str
) -> tuple[Path, ProxyLinker | None]:
    """The KB to change, and the linker that makes its vectors: of the pipeline that has the KB, or named."""
    folder, nlp = _kb_and_pipeline(given, pipeline)
    from ..pipeline.pipelines import linker_of

    return folder, linker_of(nlp, component) if nlp else None


def _kb_and_pipeline(given: Path, pipeline: str | None) -> tuple[Path, Language | None]:
    from ..kb import KnowledgeBase
    from ..kb.location import kb_to_change
    from ..pipeline.pipelines import load_pipeline

    folder = kb_to_change(given)
    with KnowledgeBase.open(folder) as kb:  # refuses what is no KB before a pipeline is loaded
        if pipeline is None and folder != given and kb.has_vectors:
            pipeline = str(given)
    return folder, load_pipeline(pipeline) if pipeline else None


@command(change, "remove")
def remove_cli(
    folder: KB,
    ids: Annotated[Texts, Argument(metavar="[ID]...", help="Concept ids")] = None,
    file: Annotated[File, Option(help="File with one id a line")] = None,
) -> None:
    """Remove entities from a KB, and their vectors.

    Numbers and rows are not used again. The space on disk becomes free when the KB is built anew.

    \b
    Examples:
      python -m spacy pel kb change remove kb C0000005 C0000039
      python -m spacy pel kb change remove kb --file ids.txt
    """
    from ..io.lines import numbered_lines
    from ..kb.change import remove_entities
    from ..kb.location import kb_to_change

    lines = [line.strip() for _, line in numbered_lines(file)] if file else []
    given = [*(ids or ()), *filter(None, lines)]
    if not given:
        raise PelError("no ids to remove", "give them, or --file with one a line")
    _report(folder, remove_entities(kb_to_change(folder), given))


@command(kb, "learn")
def learn_cli(
    folder: KB,
    corpora: Annotated[list[str], Argument(metavar="CORPUS...", help=_CORPORA)],
    pipeline: Encoder = None,
    component: Component = "proxy_linker",
    spans_key: Annotated[Text, Option(help="Give any word here if mentions overlap")] = None,
    mentions: Annotated[bool, Option("--mentions", help="Learn mentions, not their names")] = False,
    acronyms: Annotated[bool, Option("--acronyms", help="Learn acronyms of plain texts")] = False,
    least: Annotated[int, Option(min=1, help="--acronyms: least texts that define one")] = 1,
    weak_labels: Annotated[File, Option(help="--acronyms: weakly labelled PubTator file")] = None,
    per_entity: Annotated[int, Option(min=0, help="--mentions: most of an entity; 0: all")] = 64,
    limit: Annotated[int, Option(min=0, help="--mentions: documents of a file; 0: all")] = 0,
    fit: Annotated[Text, Option(help="--mentions: other documents, to fit their weight")] = None,
) -> None:
    """Learn names, or whole mentions, from annotated documents, or acronyms from plain text.

    This needs no training. Give the documents that a linker is trained on, never those that it is
    evaluated on. Each entity gets the names by which most mentions call it. With --mentions the KB
    keeps the mentions themselves, in their texts, and compares new ones with them ("kb forget" takes
    them out again). With --acronyms the documents need no annotations: where one defines "multiple
    sclerosis (MS)", and a single entity has this name, the entity gets the name "MS".
    --weak-labels writes such texts, without the definition and with "MS" annotated, to train and
    calibrate on.

    \b
    Examples:
      python -m spacy pel kb learn kb train.pubtator --pipeline training/model-best
      python -m spacy pel kb learn kb train.pubtator --mentions --pipeline training/model-best
      python -m spacy pel kb learn kb abstracts.txt.gz --acronyms --pipeline training/model-best
    """
    from ..curation.learn_mentions import learn_mentions_of
    from ..curation.learn_names import learn_acronyms, learn_names

    folder, nlp = _kb_and_pipeline(folder, pipeline)
    with progress_bar(desc="Reading", unit=" documents") as bar:
        given = {"nlp": nlp, "component": component, "progress": bar.update}
        if acronyms:
            learnt = learn_acronyms(folder, corpora, **given, least=least, weak_labels=weak_labels)
            said = (
                f"{learnt.names:,} acronyms of entities in {learnt.texts:,} texts; several entities "
                f"have {learnt.ambiguous:,} of them"
            )
            if weak_labels:
                said += f"; {learnt.weakly_labelled:,} weakly labelled documents in {weak_labels}"
        elif mentions:
            given |= {"spans_key": spans_key, "per_entity": per_entity, "limit": limit, "fit": fit}
            learnt = learn_mentions_of(folder, corpora, **given)
            weight = "too few to fit how much they count"
            if learnt.weight:
                weight = f"they count {learnt.weight.weight:.2f} above {learnt.weight.level:.2f}"
            said = (
                f"{learnt.mentions:,} of {learnt.seen:,} mentions of {learnt.entities:,} entities "
                f"learnt; {weight}"
            )
        else:
            learnt = learn_names(folder, corpora, **given, spans_key=spans_key)
            said = f"{learnt.names:,} new names in {learnt.mentions:,} mentions"
    msg.good(said)
    if not mentions or acronyms:
        _report(folder, learnt.changes)


@command(kb, "forget")
def forget_cli(
    folder: KB, source: Annotated[str, Option(help='Name of a corpus, as "kb info" shows it')]
) -> None:
    """Take the mentions of a source out of a KB, which "kb learn --mentions" put there.

    \b
    Example:
      python -m spacy pel kb forget kb --source train.pubtator
    """
    from ..kb.change import forget_mentions
    from ..kb.location import kb_to_change

    msg.good(
        f"{forget_mentions(kb_to_change(folder), source):,} mentions of {source} taken out of {folder}"
    )


def _report(folder: Path, counts: ChangeCounts) -> None:
    """Print what a change of a KB did."""
    from ..kb import KnowledgeBase
    from ..kb.location import kb_folder

    done = ", ".join(f"{count:,} {kind}" for kind, count in counts._asdict().items() if count)
    now = len(KnowledgeBase.open(kb_folder(folder)))
    msg.good(f"{folder}: {done or 'nothing changed'}; {now:,} entities now")


_SHOWN = 20  # entries of a list
_SYNONYMS = 10  # of an entity
_EXAMPLES = 5  # ids of a kind of change


@command(kb, "info")
def info_cli(
    folder: KB,
    name: Annotated[Text, Argument(metavar="[NAME]", help="Words of a name or an id")] = None,
    as_json: AsJson = False,
    limit: Annotated[int, Option(min=1, help="Number of entities to find")] = 10,
) -> None:
    """Show what a KB holds, or find entities in it.

    With NAME it gives the entities with this id, or with a name that has all these words; their synonyms
    stand below.

    \b
    Examples:
      python -m spacy pel kb info kb
      python -m spacy pel kb info en_pel_mesh_sm apixaban
      python -m spacy pel kb info kb "multiple sclerosis"
    """
    from ..kb import KnowledgeBase
    from ..kb.describe import kb_info
    from ..kb.location import kb_folder

    folder = kb_folder(folder)
    found = []
    if name is not None:
        with KnowledgeBase.open(folder) as opened:
            found = opened.search_names(name, limit)
    info = kb_info(folder) if name is None else [entity._asdict() for entity in found]
    if as_json:
        say(json.dumps(info, indent=2, ensure_ascii=False))
    elif name is None:
        width = max(map(len, info))
        for key, value in info.items():
            say(f"{key:<{width}}   {_readable(value)}")
    elif not found:
        msg.text(f"{folder} has no id {name!r} and no entity whose names hold all these words")
    for entity in () if as_json else found:
        say(f"{entity.concept_id}\t{entity.canonical_name}\t{', '.join(entity.types)}")
        if others := entity.names[1:]:
            more = (
                f" and {len(others) - _SYNONYMS:,} more (--json)" if len(others) > _SYNONYMS else ""
            )
            say(f"    also: {'; '.join(others[:_SYNONYMS])}{more}")


def _readable(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {each}" for name, each in value.items())
    if isinstance(value, list):
        more = f" and {len(value) - _SHOWN:,} more" if len(value) > _SHOWN else ""
        return (", ".join(value[:_SHOWN]) or "-") + more
    return "-" if value is None else value


@command(kb, "diff")
def diff_cli(
    old: Annotated[Path, Argument(help="Folder of a KB")],
    new: Annotated[Path, Argument(help="Folder of a later one")],
    output: Annotated[File, Option(help="JSONL file, with a line for each change")] = None,
) -> None:
    """Show what changed from one KB to another.

    Entities are compared by id, and their records field by field. Vectors are not compared.

    \b
    Example:
      python -m spacy pel kb diff umls-2024AB umls-2025AA --output changes.jsonl
    """
    from ..kb.describe import compare_kbs
    from ..kb.location import kb_folder

    old, new = kb_folder(old), kb_folder(new)
    found = compare_kbs(old, new, output, n_ids=_EXAMPLES)
    if not found.kinds:
        msg.good(f"{old} and {new} hold the same entities")
        return
    for kind in ("added", "removed", "changed"):
        count, some = found.kinds[kind], ", ".join(found.first_ids.get(kind, ()))
        more = ", …" if count > _EXAMPLES else ""
        msg.text(f"{kind:<8} {count:>9,}  {some}{more}")
    for field, count in found.fields.most_common():
        msg.text(f"  {field:<15} {count:>9,}")
    if output:
        msg.good(f"Wrote {output}")
    if found.is_not_embedded:
        embed = f"python -m spacy pel kb embed {new} PIPELINE --reuse {old}"
        msg.text(f"To encode only what changed: {embed}")


@command(kb, "verify")
def verify_cli(folder: KB) -> None:
    """Check that a KB is undamaged.

    Reads every file, compares it with its checksum, checks each record, and that all fit together.

    \b
    Example:
      python -m spacy pel kb verify kb
    """
    from ..kb import KnowledgeBase
    from ..kb.knowledge_base import verify
    from ..kb.location import kb_folder

    folder = kb_folder(folder)
    total = sum(path.stat().st_size for path in folder.glob("*.*"))
    with progress_bar(total=total, desc="Reading", unit="B", unit_scale=True) as bar:
        problems = verify(folder, progress=bar.update)
        size = bar.n
    for problem in problems:
        say_error(problem)
    if problems:
        raise Exit(1)
    with KnowledgeBase.open(folder) as opened:
        count = len(opened)
    msg.good(f"Verified {folder}: {count:,} entities, {size / 1e6:,.1f} MB as they were written")


@command(kb, "export")
def export_cli(
    folder: KB, output: Annotated[Path, Argument(metavar="OUT", help="A new folder")]
) -> None:
    """Write a KB as Parquet tables: entities, types, rows (vectors) and mentions.

    \b
    Example:
      python -m spacy pel kb export kb tables
    """
    from ..kb import KnowledgeBase
    from ..kb.describe import export_kb
    from ..kb.location import kb_folder

    with KnowledgeBase.open(kb_folder(folder)) as opened:
        counts = export_kb(opened, output)
    written = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    msg.good(f"Wrote {output}: {written}")
