"""``pel link``, ``discover`` and ``mentions``: the commands that read documents."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..batch.document_blocks import OnError
from ..corpora.formats.lookup import suffixes
from ..errors import PelError
from .apps import (
    KB,
    Address,
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
from .terminal import msg, progress_bar, reading_names, say

STDOUT = "-"
_KEPT = "the documents that were {} are kept next to the output; run the same command to resume"

_READ = f"File ({suffixes('input')}; also .gz), folder of such files, or - for stdin"
_WRITTEN = f"File ({suffixes('output')}), - for stdout, or FOLDER/ for one file per block"
_INPUT = "Files and folders, as for pel link"
_XREF = "Also write codes of this vocabulary (ICD10CM); repeatable"
_CODE = "Python file to run first, as in spacy train: it registers components"
_ATTRIBUTE = "Also write this ent._ attribute (negex); repeatable"
From = Annotated[Text, Option("--from", help="Format of the input [default: by its name]")]
To = Annotated[Text, Option("--to", help="Format of the output [default: by its name]")]
Processes = Annotated[int, Option(min=1, help="Number of processes")]
AtBadDocument = Annotated[OnError, Option(help="At a bad document: stop, or skip it")]
# In bytes of the input: the number of documents is unknown until the end.
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
    batch_size: Annotated[int, Option(min=1, help="Documents per batch")] = 128,
    n_process: Annotated[int, Option(min=0, help="Processes; 0: 1, or Ray's cores or GPUs")] = 0,
    engine: Engine = "local",
    address: Address = None,
    candidates: Annotated[int, Option(min=1, help="Candidates to write per mention")] = 5,
    xref: Annotated[Texts, Option(metavar="VOCABULARY", help=_XREF)] = None,
    attribute: Annotated[Texts, Option(metavar="NAME", help=_ATTRIBUTE)] = None,
    on_error: AtBadDocument = OnError.stop,
    jointly: Annotated[bool, Option("--jointly", help="Link similar mentions together")] = False,
    code: Annotated[File, Option("--code", help=_CODE)] = None,
    gpu_id: GpuId = -1,
) -> None:
    """Link the mentions of documents to entities.

    Use it on files of any size. The mentions of a document are linked as given; in a document without
    mentions, the pipeline finds them.

    \b
    text       one document per line; in a folder, or with --from whole-text, one document per file
    jsonl      "text"; optional: "id" and "mentions": [{"start", "end", "label"}]
    csv, tsv   column "text", optional "id"; writes one row per mention
    parquet    the keys of jsonl as columns; writes one row per mention
    json       a document, a list of them, a response of "pel serve", BioC or Label Studio
    pubtator   title, abstract, mentions
    bioc       passages, annotations; or a PubMed file (pubmed25n0001.xml.gz); also bioc-json
    jats       whole articles of PubMed Central (.nxml, .xml), with sections, input only
    docbin     docs with their annotations
    prodigy    tasks with "text" and "spans" (.prodigy.jsonl)
    label-studio  exported tasks; writes tasks with predictions (.label-studio.json)
    omop       rows of NOTE_NLP (.note_nlp.csv), output only
    fhir       one Bundle per line (.fhir.ndjson), output only

    The suffix of a file determines its format. The output has the content of the input and, for each
    mention, its entity, score and candidates, as far as the format can hold them. Offsets count characters.
    After a crash, run the same command again to resume.

    If OUTPUT ends with /, it is a folder with one file per block of up to 1,000 documents. Blocks that are
    in the folder are not linked again, so you can add files to the input.

    --engine ray links the blocks on a Ray cluster (pip install "spacy-pel[ray]"). All nodes need the same
    packages, and the pipeline, the input and the output folder at the same paths.

    \b
    Examples:
      python -m spacy pel link training/model-best notes.txt --output linked.jsonl
      python -m spacy pel link training/model-best article.txt --from whole-text
      python -m spacy pel link training/model-best pubmed.xml.gz -o pubmed.parquet --n-process 4
      python -m spacy pel link training/model-best notes/ -o coded.csv --xref ICD10CM --on-error skip
      python -m spacy pel link training/model-best notes/ -o review.label-studio.json --jointly
      python -m spacy pel link training/model-best pubmed/ -o linked/ --to parquet --engine ray --address auto
      zcat notes.gz | python -m spacy pel link training/model-best - | head
    """
    from ..batch.link_docs import Linking
    from ..batch.link_files import link_files

    if engine == "local" and address:
        raise PelError("--address is for a Ray cluster", "add --engine ray")
    if output == STDOUT and sys.stdout is None:
        raise PelError("stdout is closed", "name a file with --output")
    linking = Linking(
        pipeline,
        kb,
        spans_key,
        candidates,
        xrefs=tuple(xref or ()),
        attributes=tuple(attribute or ()),
        batch_size=batch_size,
        n_process=n_process or 1,
        on_error=on_error,
        jointly=jointly,
        code=code,
        gpu_id=gpu_id,
        reading=reading_names,
    )
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
    # Messages go to stderr, since stdout may be the output.
    if counts.documents and not counts.mentions:
        names = ", ".join(linking.nlp.pipe_names)
        remedy = 'before the linker, add a component that finds them, such as "ner" or "kb_matcher"'
        say(f"The pipeline ({names}) found no mentions; {remedy}", err=True)
    skipped = f", {len(counts.skipped):,} skipped" if counts.skipped else ""
    linked = f"Linked {counts.mentions:,} mentions in {counts.documents:,} documents{skipped}"
    say(f"{linked}: {'stdout' if output == STDOUT else output}", err=True)


@command(pel, "discover", after_all=_KEPT.format("read"))
def discover_cli(
    pipeline: Pipeline,
    input: Annotated[list[str], Argument(help=_INPUT)],
    output: Annotated[Path, Argument(help="JSONL file to write")],
    from_: From = None,
    linked: Annotated[bool, Option("--linked", help="Keep the ids and NIL of the input")] = False,
    kb: OtherKB = None,
    n_process: Processes = 1,
    on_error: AtBadDocument = OnError.stop,
) -> None:
    """Propose entities that the KB lacks.

    Use it to extend a KB with entities that your documents mention. First run "pel calibrate --jointly" on
    the pipeline. Mentions that probably have the same meaning form a cluster. Each cluster without an entity
    is a proposal. The command writes two files: OUTPUT, which "pel kb change add" can read, and a page
    (.html) on which you accept or reject the proposals or merge them into entities.

    \b
    Examples:
      python -m spacy pel discover training/model-best notes/ proposals.jsonl
      python -m spacy pel discover training/model-best linked.jsonl proposals.jsonl --linked
      python -m spacy pel kb change add kb accepted.jsonl --pipeline training/model-best
    """
    from ..batch.discover import discover
    from ..batch.link_docs import Linking

    linking = Linking(
        pipeline,
        kb,
        n_process=n_process,
        on_error=on_error,
        keep_ids=linked,
    )
    report = discover(
        linking, input, output, input_format=from_, progress=partial(_bar, desc="Linking")
    )
    mentions, documents = report.linked.mentions, report.linked.documents
    say(f"Read {mentions:,} mentions in {documents:,} documents", err=True)
    msg.good(f"{report.proposals:,} proposals: {output}; to review them, open {report.page}")


@command(pel, "mentions", after_all=_KEPT.format("searched"))
def mentions_cli(
    folder: KB,
    texts: Annotated[list[str], Argument(metavar="TEXT...", help=_INPUT)],
    output: Annotated[Path, Argument(metavar="OUT", help="File to write (.parquet)")],
    aliases: Annotated[bool, Option("--aliases", help="Search for aliases too")] = False,
    per_entity: Annotated[int, Option(min=1, help="Maximum number of mentions per entity")] = 16,
    from_: From = None,
    n_process: Processes = 1,
    on_error: AtBadDocument = OnError.stop,
) -> None:
    """Find mentions of entities in plain text, as training data.

    Use it to train a linker without annotated documents. A mention is a preferred name that only one entity
    has. OUT holds a random sample of the mentions of each entity: per row, the text around one mention and
    the id of the entity. After a crash, run the same command again to resume.

    \b
    Examples:
      python -m spacy pel mentions kb pubmed/ mentions.parquet --n-process 8
      python -m spacy pel mentions kb notes.txt articles.jsonl mentions.parquet --aliases
    """
    from spacy.lang.en.stop_words import STOP_WORDS

    from ..batch.mine import MentionSearch, mine_mentions
    from ..kb import KnowledgeBase
    from ..kb.location import kb_folder

    with KnowledgeBase.open(kb_folder(folder)) as kb:
        names = kb.name_finder(reading_names, stop_words=STOP_WORDS)
        mined = mine_mentions(
            MentionSearch(kb, names, aliases, per_entity, on_error),
            texts,
            output,
            input_format=from_,
            n_process=n_process,
            progress=partial(_bar, desc="Searching"),
        )
    msg.good(
        f"Wrote {mined.kept:,} mentions of {mined.entities:,} entities, a sample of {mined.found:,} "
        f"in {mined.documents:,} documents: {output}"
    )
    if mined.skipped:
        msg.warn(f"{len(mined.skipped):,} documents skipped")
