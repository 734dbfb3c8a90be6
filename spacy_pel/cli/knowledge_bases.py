"""``pel kb``: the commands that build, change and show knowledge bases."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from ..errors import PelError
from ..kb.readers import SOURCE_FORMATS, ReadOptions, UmlsRecipe
from .apps import (
    KB,
    Address,
    AsJson,
    Engine,
    File,
    Files,
    Pipeline,
    Prefixes,
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
_CORPORA = 'As for "pel evaluate"; with --acronyms, any texts'


@command(kb, "build")
def build_cli(
    paths: Sources,
    mapping: Annotated[Files, Option(help="SSSOM table; repeatable")] = None,
    retired: Annotated[Files, Option(help="Table of retired and current ids; repeatable")] = None,
    format: Annotated[Text, Option(help=f"{', '.join(SOURCE_FORMATS)} [default: detected]")] = None,
    column: Annotated[Texts, Option(metavar="FIELD=COLUMN", help="Of a table; repeatable")] = None,
    preset: Annotated[str, Option(help="Recipe for UMLS: full or st21pv")] = "full",
    language: Annotated[Texts, Option(help="UMLS: languages (LAT), or all")] = None,
    vocabulary: Annotated[Texts, Option(help="UMLS: vocabularies (SAB), or all")] = None,
    type: Annotated[Texts, Option(help="Types to keep; repeatable")] = None,
    without_type: Annotated[Texts, Option(help="Types to drop; repeatable")] = None,
    prefix: Prefixes = None,
    word_forms: Annotated[bool, Option("--word-forms", help="Match word forms: see above")] = False,
) -> None:
    """Build a KB from ontologies.

    Use it once per release of your sources. Records with the same id, or with ids that a mapping equates,
    become one entity, with the name and definition of the first source. An existing KB is replaced. The new
    KB has no vectors: compute them with "kb embed".

    Specify types by name, TUI, or tree number; their subtypes are included. With --word-forms, a name also
    matches plurals, adjectives, and "X of Y" for "Y X", and synonyms of one word must be exact. --retired
    is a table of retired id, tab, current id, so that former ids also find an entity.

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
    filters = {"languages": language, "vocabularies": vocabulary, "types": type}
    chosen: dict[str, Any] = {
        name: None if ALL in values else tuple(values) for name, values in filters.items() if values
    }
    recipe = UmlsRecipe.preset(preset)._replace(**chosen)
    made = build_from_sources(
        sources,
        out,
        mappings=mapping or [],
        retired=retired or [],
        format=format,
        types=chosen.get("types") or [],
        without_types=without_type or [],
        options=ReadOptions(recipe, columns_of(column or []), prefix or ()),
        word_forms=word_forms,
        progress=reading,
    )
    counts = made.settings["counts"]
    msg.good(f"Built {out}: {counts['entities']:,} entities with {counts['aliases']:,} aliases")
    msg.text(f"To link to this KB, embed it: python -m spacy pel kb embed {out} PIPELINE")


def columns_of(choices: list[str]) -> dict[str, str]:
    """Return the field of each column, from choices of the form FIELD=COLUMN."""
    fields: dict[str, str] = {}
    for choice in choices:
        field, _, column = choice.partition("=")
        if not (field and column) or column in fields:
            remedy = "write FIELD=COLUMN, as in concept_id=GeneID, once per column"
            raise PelError(f"--column {choice}: the column is missing or repeated", remedy)
        fields[column] = field
    return fields


@command(kb, "embed")
def embed_cli(
    folder: KB,
    pipeline: Pipeline,
    reuse: Annotated[File, Option(help="Older KB: copy the vectors of unchanged entities")] = None,
    dtype: Annotated[str, Option(help="Vector type: float32, float16, int8 or auto")] = "auto",
    index: Annotated[str, Option(help="Index type: exact, approximate or auto")] = "auto",
    dim: Annotated[int | None, Option(help="Stored dimensions per vector")] = None,
    alike: Annotated[float | None, Option(help="Minimum cosine of names that share a code")] = None,
    engine: Engine = "local",
    address: Address = None,
) -> None:
    """Compute the vectors of a KB with a pipeline.

    Use it after each training, because a linker rejects vectors of another encoder. The new vectors replace
    those in the KB, including those of learnt mentions. After an interruption, run the same command again to
    resume.

    --dim stores fewer dimensions of each vector (its principal components): search needs less memory and
    time, and recall drops slightly. --alike 0.95 lets similar names of an entity, such as "lung cancer" and
    "lung cancers", share a code of the index: search among 50,000 to 2 million vectors takes half the time.

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

    folder = kb_to_change(folder)
    reuse = kb_folder(reuse) if reuse else None
    nlp = load_pipeline(pipeline)
    with KnowledgeBase.open(folder) as kb:
        before = kb.settings["checksum"]
    made = embed_kb(
        folder,
        linker_of(nlp),
        dtype=dtype,
        index=index,
        dim=dim,
        alike=alike,
        reuse=reuse,
        engine=engine,
        address=address,
        nlp=nlp,
        progress=encoding,
    )
    if made.settings["checksum"] == before:
        msg.good(f"{folder} already has the vectors of this encoder")
        return
    rows = made.settings["vectors"]["rows"]
    msg.good(
        f"Embedded {folder}: {len(made):,} entities, {rows:,} vectors of {made.dim} dimensions, "
        f"one for each {made.index_unit}"
    )


_ENTITIES = 'A source of "kb build", or a KB'
Entities = Annotated[Path, Argument(metavar="SOURCE", help=_ENTITIES)]
EntitiesIfAny = Annotated[File, Argument(metavar="[SOURCE]", help=_ENTITIES)]
Encoder = Annotated[
    Text,
    Option("--pipeline", help="Pipeline of the KB's vectors [default: KB, if it is a pipeline]"),
]
Mapping = Annotated[File, Option(help="SSSOM table of ids")]
SourceFormat = Annotated[Text, Option("--format", help='Format of SOURCE, as for "kb build"')]
Columns = Annotated[
    Texts, Option("--column", metavar="FIELD=COLUMN", help='Column of a table, as for "kb build"')
]
Synonyms = Annotated[
    Texts, Option("--synonym", metavar="ID=NAME", help="Name to add to an entity; repeatable")
]


@command(change, "add")
def add_cli(
    folder: KB,
    source: EntitiesIfAny = None,
    synonym: Synonyms = None,
    pipeline: Encoder = None,
    format: SourceFormat = None,
    column: Columns = None,
    prefix: Prefixes = None,
) -> None:
    """Add entities, or synonyms of entities, to a KB.

    Use it for entities that your texts mention and the KB lacks. Only the new entities are encoded and
    written, so the time does not depend on the size of the KB. SOURCE may be a table with the columns "id",
    "name" and "synonyms" (separated by | or ;). An id that the KB already has is an error. --synonym adds a
    name to an entity of the KB.

    \b
    Examples:
      python -m spacy pel kb change add my_pipeline drugs.csv
      python -m spacy pel kb change add my_pipeline --synonym D003924="sugar disease"
      python -m spacy pel kb change add kb new.jsonl --pipeline training/model-best
    """
    if bool(source) == bool(synonym):
        raise PelError("give either SOURCE or --synonym", 'as in --synonym D003924="sugar disease"')
    if source:
        _change("add", folder, source, pipeline, format, column, prefix)
        return
    from ..curation.kb_encoder import add_synonyms

    pairs = []
    for text in synonym or ():
        id, _, name = (part.strip() for part in text.partition("="))
        if not (id and name):
            remedy = 'write ID=NAME, as in D003924="sugar disease"'
            raise PelError(f"--synonym {text}: lacks an id or a name", remedy)
        pairs.append((id, name))
    kb, linker = _kb_and_linker(folder, pipeline)
    _report(folder, add_synonyms(kb, pairs, linker))


@command(change, "update")
def update_cli(
    folder: KB,
    source: Entities,
    pipeline: Encoder = None,
    format: SourceFormat = None,
    column: Columns = None,
    prefix: Prefixes = None,
) -> None:
    """Replace the records of entities in a KB.

    Use it to correct names, types or definitions. Only records that differ are encoded and written. An id
    that the KB does not have is an error.

    \b
    Example:
      python -m spacy pel kb change update kb corrected.jsonl --pipeline training/model-best
    """
    _change("update", folder, source, pipeline, format, column, prefix)


@command(change, "merge")
def merge_cli(
    folder: KB,
    source: Entities,
    mapping: Mapping = None,
    pipeline: Encoder = None,
    format: SourceFormat = None,
    column: Columns = None,
    prefix: Prefixes = None,
) -> None:
    """Merge the entities of a source into a KB.

    Use it to add another ontology. If the KB has the id of an entity, that entity keeps its name and
    definition and gets the new names, types and ids. All other entities are added.

    \b
    Example:
      python -m spacy pel kb change merge kb mondo.obo --mapping mondo.sssom.tsv --pipeline model-best
    """
    _change("merge", folder, source, pipeline, format, column, prefix, mapping)


def _change(
    kind: str,
    kb_or_pipeline: Path,
    source: Path,
    pipeline: str | None,
    format: str | None,
    column: list[str] | None,
    prefix: list[str] | None,
    mapping: Path | None = None,
) -> None:
    """Change the entities of a KB by those of a source, and print the counts."""
    from ..curation.kb_encoder import change_from_source

    folder, linker = _kb_and_linker(kb_or_pipeline, pipeline)
    counts = change_from_source(
        kind,
        folder,
        source,
        linker=linker,
        format=format,
        options=ReadOptions(columns=columns_of(column or []), prefixes=prefix or ()),
        mapping=mapping,
        progress=partial(counted, desc="Reading"),
    )
    _report(kb_or_pipeline, counts)


def _kb_and_linker(kb_or_pipeline: Path, pipeline: str | None) -> tuple[Path, ProxyLinker | None]:
    """Return the KB to change, and the linker that computes its vectors.

    Without ``pipeline``, the linker is that of ``kb_or_pipeline`` if it is a pipeline whose KB has vectors.
    """
    folder, nlp = _kb_and_pipeline(kb_or_pipeline, pipeline)
    from ..pipeline.pipelines import linker_of

    return folder, linker_of(nlp) if nlp else None


def _kb_and_pipeline(kb_or_pipeline: Path, pipeline: str | None) -> tuple[Path, Language | None]:
    from ..kb import KnowledgeBase
    from ..kb.location import kb_to_change
    from ..pipeline.pipelines import load_pipeline

    folder = kb_to_change(kb_or_pipeline)
    with KnowledgeBase.open(folder) as kb:  # fails before a pipeline is loaded
        if pipeline is None and folder != kb_or_pipeline and kb.has_vectors:
            pipeline = str(kb_or_pipeline)
    return folder, load_pipeline(pipeline) if pipeline else None


@command(change, "remove")
def remove_cli(
    folder: KB,
    ids: Annotated[list[str], Argument(metavar="ID...", help="Concept ids")],
) -> None:
    """Remove entities and their vectors from a KB.

    Use it for entities that you never want to link to. The disk space becomes free when you build the KB
    again.

    \b
    Example:
      python -m spacy pel kb change remove kb C0000005 C0000039
    """
    from ..kb.change import remove_entities
    from ..kb.location import kb_to_change

    _report(folder, remove_entities(kb_to_change(folder), ids))


@command(kb, "learn")
def learn_cli(
    folder: KB,
    corpora: Annotated[list[str], Argument(metavar="CORPUS...", help=_CORPORA)],
    pipeline: Encoder = None,
    spans_key: Annotated[Text, Option(help="Any word, if mentions in the corpus overlap")] = None,
    mentions: Annotated[bool, Option("--mentions", help="Learn mentions, not their names")] = False,
    acronyms: Annotated[bool, Option("--acronyms", help="Learn abbreviations")] = False,
    weak_labels: Annotated[
        File, Option(help="--acronyms: PubTator file to write: see above")
    ] = None,
    per_entity: Annotated[int, Option(min=0, help="--mentions: maximum per entity; 0: all")] = 64,
    limit: Annotated[int, Option(min=0, help="--mentions: documents per file; 0: all")] = 0,
    fit: Annotated[Text, Option(help="--mentions: other documents, to fit their weight")] = None,
) -> None:
    """Learn names or mentions from annotated documents, or abbreviations from plain text.

    Use it to improve a linker without training. Use the documents on which the linker was trained, never
    those on which it is evaluated. By default, each entity gets the names that mentions use for it.

    With --mentions, the KB stores the mentions with their texts, and a linker compares new mentions with
    them; "kb forget" removes them.

    With --acronyms, the documents need no annotations: if one defines "multiple sclerosis (MS)", and only
    one entity has the name "multiple sclerosis", that entity gets the name "MS". A text that is only a
    definition, such as "room air (RA)", also counts if no entity has the name. --weak-labels writes the
    texts, without the definition and with "MS" annotated, as weakly labelled documents for training and
    calibration.

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
        if mentions and not acronyms:
            learnt = learn_mentions_of(
                folder,
                corpora,
                nlp=nlp,
                spans_key=spans_key,
                per_entity=per_entity,
                limit=limit,
                fit=fit,
                progress=bar.update,
            )
            changes = None
            summary = (
                f"Learned {learnt.mentions:,} of {learnt.seen:,} mentions of {learnt.entities:,} "
                "entities; "
            )
            if learnt.weight:
                weight, level = learnt.weight.weight, learnt.weight.level
                summary += f"their weight is {weight:.2f} above a similarity of {level:.2f}"
            else:
                summary += "too few to fit their weight"
        elif acronyms:
            names = learn_acronyms(
                folder,
                corpora,
                nlp=nlp,
                weak_labels=weak_labels,
                progress=bar.update,
            )
            changes = names.changes
            summary = (
                f"Learned {names.names:,} abbreviations of entities from {names.texts:,} texts; "
                f"{names.ambiguous:,} of them belong to several entities"
            )
            if names.other_senses:
                summary += f"; {names.other_senses:,} texts define one as no entity of the KB"
            if weak_labels:
                summary += f"; {names.weakly_labelled:,} weakly labelled documents: {weak_labels}"
        else:
            names = learn_names(
                folder,
                corpora,
                nlp=nlp,
                spans_key=spans_key,
                progress=bar.update,
            )
            changes = names.changes
            summary = f"Learned {names.names:,} new names from {names.mentions:,} mentions"
    msg.good(summary)
    if changes is not None:
        _report(folder, changes)


@command(kb, "forget")
def forget_cli(
    folder: KB, source: Annotated[str, Option(help='Name of a corpus, as "kb info" shows it')]
) -> None:
    """Remove the mentions of a corpus, stored by "kb learn --mentions", from a KB.

    Use it to replace a corpus by a new version, or before you evaluate on it.

    \b
    Example:
      python -m spacy pel kb forget kb --source train.pubtator
    """
    from ..kb.change import forget_mentions
    from ..kb.location import kb_to_change

    count = forget_mentions(kb_to_change(folder), source)
    msg.good(f"Removed {count:,} mentions of {source} from {folder}")


def _report(folder: Path, counts: ChangeCounts) -> None:
    """Print the counts of a change, and the number of entities after it."""
    from ..kb import KnowledgeBase
    from ..kb.location import kb_folder

    done = ", ".join(f"{count:,} {kind}" for kind, count in counts._asdict().items() if count)
    now = len(KnowledgeBase.open(kb_folder(folder)))
    msg.good(f"{folder}: {done or 'nothing changed'}; {now:,} entities now")


_MAX_LISTED = 20  # items of a list in "kb info"
_MAX_SYNONYMS = 10
_MAX_IDS = 5  # example ids of each kind of change


@command(kb, "info")
def info_cli(
    folder: KB,
    name: Annotated[Text, Argument(metavar="[NAME]", help="Words of a name, or an id")] = None,
    as_json: AsJson = False,
    limit: Annotated[int, Option(min=1, help="Maximum number of entities to show")] = 10,
) -> None:
    """Show what a KB contains, or search for entities in it.

    Use it to find an id. Without NAME, it prints counts, sources and settings. With NAME, it prints the
    entity with this id, or the entities with all these words in a name. Synonyms are marked if they are
    narrow, broad or related.

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
    if name is None:
        info = kb_info(folder)
        if as_json:
            say(json.dumps(info, indent=2, ensure_ascii=False))
            return
        width = max(map(len, info))
        for key, value in info.items():
            say(f"{key:<{width}}   {_readable(value)}")
        return
    with KnowledgeBase.open(folder) as opened:
        entities = opened.search_names(name, limit)
    if as_json:
        records = [entity._asdict() for entity in entities]
        say(json.dumps(records, indent=2, ensure_ascii=False))
        return
    for entity in entities:
        say(f"{entity.concept_id}\t{entity.canonical_name}\t{', '.join(entity.types)}")
        scopes = {name: f"{name} [{s}]" for name, s in entity.scopes.items() if s != "exact"}
        if synonyms := [scopes.get(name, name) for name in entity.names[1:]]:
            rest = len(synonyms) - _MAX_SYNONYMS
            more = f" and {rest:,} more (--json)" if rest > 0 else ""
            say(f"    also: {'; '.join(synonyms[:_MAX_SYNONYMS])}{more}")
    if not entities:
        msg.text(f"{folder} has neither the id {name!r} nor an entity whose names have these words")


def _readable(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {item}" for name, item in value.items())
    if isinstance(value, list):
        rest = len(value) - _MAX_LISTED
        more = f" and {rest:,} more" if rest > 0 else ""
        return (", ".join(value[:_MAX_LISTED]) or "-") + more
    return "-" if value is None else str(value)


@command(kb, "upgrade")
def upgrade_cli(
    folder: KB,
    sources: Annotated[list[Path], Argument(metavar="SOURCE...", help="Files of the release")],
    compare: Annotated[bool, Option("--compare", help="Only compare: change nothing")] = False,
    output: Annotated[File, Option(help="JSONL file, with one line per entity")] = None,
    pipeline: Encoder = None,
) -> None:
    """Update a KB to a new release of its source, such as next year's MeSH.

    Use it to keep a pipeline current without training. It prints how many entities are new, renamed and
    retired, and encodes only new names. The KB keeps learnt names, abbreviations, mentions, corrections, and
    former ids. SOURCE is in any format of "kb build".

    After an error, the KB is unchanged. Copy an installed package first, with "pel
    copy"; --compare works without a copy.

    \b
    Examples:
      python -m spacy pel kb upgrade en_pel_mesh_sm mesh2027 --compare --output changes.jsonl
      python -m spacy pel kb upgrade my_pipeline mesh2027
    """
    from ..batch.upgrade import upgrade_kb
    from ..io.whole_files import pointed_to, whole_file
    from ..kb.location import kb_folder

    if compare:
        path, nlp = kb_folder(folder), None
    else:
        path, nlp = _kb_and_pipeline(folder, pipeline)
    changes = upgrade_kb(
        path,
        sources,
        nlp=nlp,
        compare_only=compare,
        reading=reading,
        encoding=encoding,
    )
    records: dict[str, list[dict[str, Any]]] = {
        "new": [{"id": e.concept_id, "name": e.canonical_name} for e in changes.added],
        "renamed": [renamed._asdict() for renamed in changes.renamed],
        "retired": [retired._asdict() for retired in changes.retired],
    }
    for kind, items in records.items():
        msg.text(f"{kind:<8} {len(items):>9,}{':' if items else ''}")
        for id, name, *now in (item.values() for item in items[:_MAX_IDS]):
            say(f"    {id}  {' → '.join(filter(None, (name, *now)))}")
    if output:
        with whole_file(pointed_to(output)) as file:
            for kind, items in records.items():
                for item in items:
                    file.write(json.dumps({"kind": kind, **item}, ensure_ascii=False) + "\n")
        msg.good(f"Wrote {output}")
    if not compare:
        msg.good(f"Upgraded {folder}: {len(changes.records):,} records are new or have changed")


@command(kb, "verify")
def verify_cli(folder: KB) -> None:
    """Check that a KB is undamaged.

    Use it after copying a KB. It compares each file with its checksum and checks all records and the
    references between them.

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
    msg.good(f"Verified {folder}: {count:,} entities, {size / 1e6:,.1f} MB undamaged")
