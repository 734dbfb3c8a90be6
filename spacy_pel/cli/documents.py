"""``pel link``, ``discover``, ``mentions`` and ``check``: texts or names in, what they mean out."""

import sys
from collections import Counter
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from ..batch.document_blocks import OnError
from ..corpora.formats.lookup import suffixes
from ..errors import PelError
from ..io.whole_files import pointed_to, whole_file
from .apps import (
    KB,
    Address,
    Component,
    Engine,
    File,
    GpuId,
    OtherKB,
    Pipeline,
    SpansKey,
    Text,
    Texts,
    command,
    pel,
)
from .terminal import counted, msg, progress_bar, reading_names, say

STDOUT = "-"
_KEPT = "what is {} is kept beside the output, and the same command goes on from there"

_READ = f"A file ({suffixes('input')}; also .gz), a folder of such files, a URL, or - for stdin"
_WRITTEN = f"File ({suffixes('output')}), or - for stdout; FOLDER/ for a file a block"
_INPUT = "Files and folders, as pel link reads them"
_XREF = "Also write codes in it (ICD10CM); may be repeated"
_CODE = "Python file to run first, as for spacy train; it imports what adds components"
_ATTRIBUTE = "Also write this ent._ attribute (negex); may be repeated"
From = Annotated[Text, Option("--from", help="Format of the input [default: by its name]")]
To = Annotated[Text, Option("--to", help="Format of the output [default: by its name]")]
BatchSize = Annotated[int, Option(min=1, help="Documents linked at a time")]
Processes = Annotated[int, Option(min=1, help="Processes to use")]
AtBadDocument = Annotated[OnError, Option(help="At a bad document: end the run, or go on")]
# In bytes of the input: the number of documents is not known before the end.
_bar = partial(progress_bar, unit="B", unit_scale=True)


@command(pel, "link", after_all=_KEPT.format("linked"))
def link_cli(
    pipeline: Pipeline,
    input: Annotated[str, Argument(help=_READ)],
    output: Annotated[str, Option("--output", "-o", help=_WRITTEN)] = STDOUT,
    from_: From = None,
    to: To = None,
    kb: OtherKB = None,
    spans_key: SpansKey = None,
    batch_size: BatchSize = 128,
    n_process: Annotated[int, Option(min=0, help="Processes; 0: 1, or Ray's cores or GPUs")] = 0,
    engine: Engine = "local",
    address: Address = None,
    candidates: Annotated[int, Option(min=1, help="Candidates written for each mention")] = 5,
    xref: Annotated[Texts, Option(metavar="VOCABULARY", help=_XREF)] = None,
    attribute: Annotated[Texts, Option(metavar="NAME", help=_ATTRIBUTE)] = None,
    on_error: AtBadDocument = OnError.stop,
    jointly: Annotated[bool, Option("--jointly", help="Mentions alike get one entity")] = False,
    code: Annotated[File, Option("--code", help=_CODE)] = None,
    gpu_id: GpuId = -1,
    component: Component = "proxy_linker",
) -> None:
    """Link the mentions of documents to entities.

    If a document has mentions, these are linked. Otherwise the pipeline finds the mentions.

    \b
    text       one document a line; in a folder, one document a file
    jsonl      "text"; optional: "id" and "mentions": [{"start", "end", "label"}]
    csv, tsv   column "text", optional "id"; one row a mention is written
    parquet    the keys of jsonl as columns; one row a mention is written
    json       a document, a list of them, an answer of "pel serve", BioC or Label Studio
    pubtator   title, abstract, mentions
    bioc       passages, annotations; or a file of PubMed (pubmed25n0001.xml.gz); also bioc-json
    docbin     docs with their annotations
    prodigy    tasks with "text" and "spans" (.prodigy.jsonl)
    label-studio  tasks of an export; tasks with predictions are written (.label-studio.json)
    brat       a folder of .txt and .ann; written as .brat.zip, which is unpacked into one
    omop       rows of NOTE_NLP (.note_nlp.csv), only written
    fhir       a Bundle a line (.fhir.ndjson), only written

    The suffix of a file tells its format. The output has what the input has, and of each mention the
    entity, its score and candidates where the format can hold them. Offsets count characters. After a
    crash, run the same command again: it goes on where it was.

    An output that ends with / is a folder. It gets one file for each block of up to 1,000 documents.
    Blocks whose files are there are left out, also when more files are added to the input.

    --engine ray links the blocks on a Ray cluster (pip install "spacy-pel[ray]"). Its nodes must have
    the same packages, and see the pipeline, the input and the folder at the same paths.

    \b
    Examples:
      python -m spacy pel link training/model-best notes.txt --output linked.jsonl
      python -m spacy pel link training/model-best pubmed.xml.gz -o pubmed.parquet --n-process 4
      python -m spacy pel link training/model-best notes/ -o coded.csv --xref ICD10CM --on-error skip
      python -m spacy pel link training/model-best notes/ -o review.label-studio.json --jointly
      python -m spacy pel link training/model-best pubmed/ -o linked/ --to parquet --engine ray --address auto
      zcat notes.gz | python -m spacy pel link training/model-best - | head
    """
    from ..batch.link import link_files
    from ..batch.link_docs import Linking

    if engine == "local" and address:
        raise PelError("--address is for a Ray cluster", "add --engine ray")
    if output == STDOUT and sys.stdout is None:
        raise PelError("stdout is closed", "name a file with --output")
    wanted = candidates, tuple(xref or ()), tuple(attribute or ())
    work = batch_size, n_process or 1, on_error, jointly
    given = {"code": code, "gpu_id": gpu_id, "reading": reading_names}
    linking = Linking(pipeline, component, kb, spans_key, *wanted, *work, **given)
    counts = link_files(
        linking,
        input,
        sys.stdout.buffer if output == STDOUT else output,
        input_format=from_,
        output_format=to,
        engine=engine,
        address=address,
        workers=n_process or None,
        progress=partial(_bar, desc="Linking"),
    )
    # On stderr, as stdout may be the output.
    if counts.documents and not counts.mentions:
        remedy = 'add a component that finds some before the linker, such as "ner" or "kb_matcher"'
        names = ", ".join(linking.nlp.pipe_names)
        say(f"No mention found by the pipeline ({names}); {remedy}", err=True)
    linked = f"{counts.mentions:,} mentions of {counts.documents:,} documents"
    skipped = f", {len(counts.skipped):,} skipped" if counts.skipped else ""
    say(f"Linked {linked}{skipped}: {'stdout' if output == STDOUT else output}", err=True)


@command(pel, "discover", after_all=_KEPT.format("read"))
def discover_cli(
    pipeline: Pipeline,
    input: Annotated[list[str], Argument(help=_INPUT)],
    output: Annotated[Path, Argument(help="The JSONL file to write")],
    from_: From = None,
    linked: Annotated[bool, Option("--linked", help="Keep ids and NIL of the input")] = False,
    kb: OtherKB = None,
    spans_key: SpansKey = None,
    batch_size: BatchSize = 128,
    n_process: Processes = 1,
    on_error: AtBadDocument = OnError.stop,
    component: Component = "proxy_linker",
) -> None:
    """Propose entities that the knowledge base lacks.

    Mentions that probably mean the same are joined. A group without an entity is a proposal. Two files
    are written: OUTPUT, a source of "pel kb change add", and a page, with the suffix .html, on which
    proposals are accepted, merged into entities, or rejected. Run "pel calibrate --jointly" first.

    \b
    Examples:
      python -m spacy pel discover training/model-best notes/ proposals.jsonl
      python -m spacy pel discover training/model-best linked.jsonl proposals.jsonl --linked
      python -m spacy pel kb change add kb accepted.jsonl --pipeline training/model-best
    """
    from ..batch.discover import discover
    from ..batch.link_docs import Linking

    work = {"batch_size": batch_size, "n_process": n_process, "on_error": on_error}
    linking = Linking(pipeline, component, kb, spans_key, **work, keep_ids=linked)
    report = discover(
        linking, input, output, input_format=from_, progress=partial(_bar, desc="Linking")
    )
    mentions, documents = report.linked.mentions, report.linked.documents
    say(f"Read {mentions:,} mentions of {documents:,} documents", err=True)
    msg.good(f"{report.proposals:,} proposals: {output}; to look at them, open {report.page}")


@command(pel, "mentions", after_all=_KEPT.format("found"))
def mentions_cli(
    folder: KB,
    texts: Annotated[list[str], Argument(metavar="TEXT...", help=_INPUT)],
    output: Annotated[Path, Argument(metavar="OUT", help="File to write (.parquet)")],
    aliases: Annotated[bool, Option("--aliases", help="Also look for aliases")] = False,
    per_entity: Annotated[int, Option(min=1, help="Most mentions kept of an entity")] = 16,
    window: Annotated[int, Option(min=0, help="Words and signs kept around a mention")] = 64,
    seed: Annotated[int, Option(min=0, help="Decides which mentions are kept")] = 0,
    from_: From = None,
    n_process: Processes = 1,
    on_error: AtBadDocument = OnError.stop,
) -> None:
    """Find mentions of entities in plain text, to train a linker without annotations.

    A mention is a preferred name of one entity alone. Of each entity a random sample is kept. The
    output is a corpus like any other: a row has the text around one mention, and the entity's id.
    After a crash or an interruption, run the same command again: it goes on where it was.

    \b
    Examples:
      python -m spacy pel mentions kb pubmed/ mentions.parquet --n-process 8
      python -m spacy pel mentions kb notes.txt articles.jsonl mentions.parquet --aliases
    """
    from spacy.lang.en.stop_words import STOP_WORDS

    from ..batch.mine import MentionSearch, mine_mentions
    from ..kb import KnowledgeBase
    from ..kb.location import kb_folder

    given = {"input_format": from_, "n_process": n_process}
    with KnowledgeBase.open(kb_folder(folder)) as kb:
        names = kb.name_finder(reading_names, stop_words=STOP_WORDS)
        search = MentionSearch(kb, names, aliases, per_entity, window, seed, on_error)
        mined = mine_mentions(
            search, texts, output, **given, progress=partial(_bar, desc="Searching")
        )
    msg.good(
        f"{mined.kept:,} mentions of {mined.entities:,} entities, of {mined.found:,} found in "
        f"{mined.documents:,} documents: {output}"
    )
    if mined.skipped:
        msg.warn(f"{len(mined.skipped):,} documents skipped")


_CHECKED = "File (.tsv, .csv, .jsonl) [default: a table on stdout]"
_NOT_CORRECT = 3  # the exit code of "pel check"; 1 and 2 are those of errors


@command(pel, "check")
def check_cli(
    known: Annotated[str, Argument(metavar="KB_OR_PIPELINE", help="KB, or trained pipeline")],
    pairs: Annotated[Path, Argument(help='Table with columns "name", "id" (.tsv, .csv; also .gz)')],
    output: Annotated[File, Option("--output", "-o", help=_CHECKED)] = None,
) -> None:
    """Say whether ids mean the names that somebody wrote beside them.

    Language models invent ids that exist and mean something else, and ids retire. Each row gets a
    verdict, what its id means, the id that its name needs, and its probability:

    \b
    correct     the id means this name
    unknown id  the KB does not have the id
    retired     it is an id of before; the one of today is proposed
    other name  the id means something else

    A KB compares names by their letters. A pipeline also knows names that are written in another way.
    The exit code is 0 if all pairs are correct, 3 if some are not, and 1 after an error.

    \b
    Examples:
      python -m spacy pel check kb curated.tsv
      python -m spacy pel check training/model-best curated.tsv --output checked.jsonl
    """
    from ..curation.check_ids import CORRECT, check_table, opened

    suffix = output.suffix.lower() if output else ".tsv"
    if suffix not in (".tsv", ".csv", ".jsonl"):
        raise PelError(f"{output}: not a format to write", "let it end in .tsv, .csv or .jsonl")
    with whole_file(pointed_to(output)) if output else nullcontext(sys.stdout) as file:
        verdicts = check_table(opened(known), pairs, file, suffix)
        counts = Counter(counted(verdicts, "Checking", " pairs"))
    found = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.most_common())
    say(f"Checked {counts.total():,} pairs: {found or 'none'}", err=True)
    if counts.total() > counts[CORRECT]:
        raise Exit(_NOT_CORRECT)
