"""The commands about pipelines: ``pel start``, ``fix``, ``calibrate``, ``serve`` and others."""

import json
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from ..errors import PelError
from ..kb.readers import ReadOptions
from .apps import (
    File,
    Files,
    Force,
    GpuId,
    OtherKB,
    Pipeline,
    Prefixes,
    Sources,
    SpansKey,
    Text,
    Texts,
    command,
    pel,
    sources_and_folder,
)
from .knowledge_bases import columns_of
from .terminal import encoding, msg, progress_bar, reading, say

Out = Annotated[Path, Argument(help="Folder to make")]
_COLOURS = {"ok": typer.colors.GREEN, "note": typer.colors.YELLOW, "BROKEN": typer.colors.RED}


@command(
    pel, "start", after_all="the work so far is kept next to OUT; run the same command to resume"
)
def start_cli(
    paths: Sources,
    encoder: Annotated[Text, Option(help="BERT or pipeline [default: en_pel_mesh_sm]")] = None,
    below: Annotated[
        Texts, Option(help="Link only to this id and its descendants; repeatable")
    ] = None,
    format: Annotated[Text, Option(help='Format of the sources, as for "kb build"')] = None,
    column: Annotated[Texts, Option(metavar="FIELD=COLUMN", help='As for "kb build"')] = None,
    prefix: Prefixes = None,
    force: Force = False,
) -> None:
    """Make a pipeline that links to your ontology.

    Use it first: it needs no annotated documents and no training. It builds a KB from the sources and
    computes a vector for each name with the encoder: about 4 minutes for 50,000 names with a 6-layer BERT on
    one core. The encoder is a BERT (its Hugging Face name or its folder) or a trained pipeline.

    A CSV file with the columns "id", "name" and "synonyms" (separated by | or ;) needs no options. If a
    source needs other options, build a KB from it with "kb build" and pass its folder as SOURCE. After an
    interruption, run the same command again to resume.

    \b
    Examples:
      python -m spacy pel start hp.obo linker --encoder sentence-transformers/all-MiniLM-L6-v2
      python -m spacy pel start hp.obo linker --below HP:0000707
      python -m spacy pel start mondo.obo hp.obo linker --encoder models/sapbert
      python -m spacy pel start codes.csv linker --column concept_id=Code --column canonical_name=Title
    """
    from ..package.start import start

    sources, out = sources_and_folder(paths)
    kb = start(
        sources,
        out,
        encoder=encoder,
        below=below or (),
        format=format,
        options=ReadOptions(columns=columns_of(column or []), prefixes=prefix or ()),
        force=force,
        reading=reading,
        encoding=encoding,
        fitting=partial(progress_bar, unit=" names"),
    )
    rows = kb.settings["vectors"]["rows"]
    msg.good(f"Made {out}: it links to {len(kb):,} entities with {rows:,} vectors")
    say(f"To link texts: python -m spacy pel link {out} texts.txt --output linked.jsonl")
    say(f"To try it in a browser: python -m spacy pel serve {out}")


@command(pel, "copy")
def copy_cli(pipeline: Pipeline, out: Out) -> None:
    """Copy a pipeline with its KB to a new folder.

    Use it before you change an installed package. The package stays unchanged: "kb change" adds entities and
    synonyms to the copy, and "fix" stores corrections in it.

    \b
    Example:
      python -m spacy pel copy en_pel_mesh_sm my_pipeline
      python -m spacy pel kb change add my_pipeline drugs.csv
      python -m spacy pel link my_pipeline notes.txt
    """
    from ..package.copy_pipeline import copy_pipeline

    say(f"Copying {pipeline} and its KB to {out}, with a checksum test of the whole KB")
    with copy_pipeline(pipeline, out) as kb:
        msg.good(f"Copied {pipeline} to {out}: it links to {len(kb):,} entities")


@command(pel, "fix")
def fix_cli(
    pipeline: Annotated[str, Argument(help="Folder of a pipeline, or of a KB")],
    export: Annotated[Files, Argument(metavar="[EXPORT]...", help="Files: see above")] = None,
    name: Annotated[Text, Option(help="Name to decide about")] = None,
    id: Annotated[Text, Option(help="Id of its entity; NIL: the name is no entity")] = None,
    scope: Annotated[Text, Option(help="always, label or text [default: see above]")] = None,
    label: Annotated[Text, Option(help="Label of the mentions, for the scope label")] = None,
    text: Annotated[Text, Option(help="Text with the name, for the scope text")] = None,
    undo: Annotated[Texts, Option(help="Number to remove, or all; repeatable")] = None,
    from_: Annotated[Text, Option("--from", help="Format of EXPORT [default: by its name]")] = None,
) -> None:
    """Correct the links of a pipeline: decide what a name means.

    Use it when a linker is wrong about a name. To correct an installed package, copy it first. EXPORT is an
    export of the page of "pel serve", or documents whose mentions have ids. Mentions with a score are
    predictions of a linker and are ignored. Alternatively, decide about one name with --name and --id.
    Without any of these, the command lists the corrections.

    \b
    The scope of a correction:
    always    for all mentions with the name
    label     for mentions with this label
    text      in this text, and in texts that share many of its rare words

    The default is "text" for a name of an EXPORT that has another meaning: another entity of the KB has this
    name, it is an abbreviation, or corrections disagree. Otherwise it is "always", or "label" with --label.

    A correction takes precedence over everything that was learnt and has the probability 1, in a running
    server too. A later correction with the same name and scope replaces it.

    \b
    Examples:
      python -m spacy pel fix my_pipeline linked.json
      python -m spacy pel fix my_pipeline --name RA --id D006325
      python -m spacy pel fix my_pipeline --name cold --id NIL --label Chemical
      python -m spacy pel fix my_pipeline
      python -m spacy pel fix my_pipeline --undo 2
    """
    from ..kb.location import kb_to_change

    if bool(name) != bool(id):
        raise PelError("--name and --id go together", "as in --name RA --id D006325")
    if sum(map(bool, (export, name, undo))) > 1:
        raise PelError("conflicting arguments", "give only one: EXPORT, --name or --undo")
    if undo:
        _undo_corrections(pipeline, undo)
        return
    if not (export or name):
        _list_corrections(pipeline)
        return
    from ..curation.fix import Correction, fix, read_corrections
    from ..kb import KnowledgeBase

    folder = kb_to_change(pipeline)
    scope = scope or ("label" if label else "")
    unknown: list[str] = []
    if name and id:
        corrections = [Correction(name, id, scope, label or "", text or "")]
    else:
        corrections = []
        with KnowledgeBase.open(folder) as kb:
            for path in export or ():
                read = read_corrections(path, kb, from_, scope, label or "")
                corrections += read.corrections
                unknown += read.unknown
    stored = fix(folder, corrections)
    for decision in stored:
        say(f"{decision.number}\t{decision}")
    if unknown:
        msg.warn(f"Left out ids that the KB lacks: {', '.join(unknown[:10])}")
    if not stored:
        msg.warn("Nothing to correct: no mention has an id that a person gave it")
    else:
        command = f"python -m spacy pel fix {pipeline} --undo NUMBER"
        msg.good(f"Stored {len(stored):,} corrections; to remove one: {command}")


def _list_corrections(pipeline: str) -> None:
    from ..kb import KnowledgeBase
    from ..kb.location import kb_folder

    with KnowledgeBase.open(kb_folder(pipeline)) as kb:
        decisions = kb.corrections.decisions
        for decision in decisions:
            id = decision.concept_id
            say(f"{decision.number}\t{decision}\t{kb[id].canonical_name if id in kb else ''}")
    if not decisions:
        msg.text(f"{pipeline} has no corrections")


def _undo_corrections(pipeline: str, numbers: list[str]) -> None:
    from ..kb.corrections import undo
    from ..kb.location import kb_to_change

    folder = kb_to_change(pipeline)
    for number in numbers:
        if number != "all" and not number.isdecimal():
            raise PelError(f"--undo {number}: not a number", "give one from the list, or all")
    removed = undo(folder, None if "all" in numbers else map(int, numbers))
    msg.good(f"Removed {len(removed):,} corrections from {pipeline}")


@command(pel, "assemble")
def assemble_cli(
    pipeline: Pipeline,
    kb: Annotated[Path, Argument(metavar="KB", help="Folder of a KB with the pipeline's vectors")],
    out: Out,
    metrics: Annotated[Files, Option(help='File of "pel evaluate"; repeatable')] = None,
    licenses: Annotated[File, Option(help="Text file of all licences")] = None,
    name: Annotated[Text, Option(help="Name of the package")] = None,
    version: Annotated[Text, Option(help="Version of the package")] = None,
    description: Annotated[Text, Option(help="Purpose of the pipeline")] = None,
    license: Annotated[Text, Option(help="Licence of the package")] = None,
    author: Annotated[Text, Option(help="Author of the pipeline")] = None,
    force: Force = False,
) -> None:
    """Combine a pipeline and its KB in one folder.

    Use it to move or release a pipeline: "spacy package" makes a wheel of the folder. Its meta.json and
    its model card (README.md) state the version, the releases in the KB, the licences and the metrics.

    \b
    Example:
      python -m spacy pel evaluate training/model-best test.pubtator --output test.json
      python -m spacy pel assemble training/model-best kb release --metrics test.json
        --licenses LICENSES.txt --name umls_linker --version 1.0.0
      python -m spacy package release packages --build wheel
      pip install packages/en_umls_linker-1.0.0/dist/en_umls_linker-1.0.0-py3-none-any.whl
    """
    from ..package.assemble import PackageInfo, assemble, check_replaceable
    from ..pipeline.pipelines import load_pipeline

    check_replaceable(out, force=force)
    try:
        notes = licenses.read_text("utf8") if licenses else ""
    except UnicodeDecodeError as error:
        raise PelError(f"{licenses}: not UTF-8", "save it as UTF-8") from error
    info = PackageInfo(name, version, description, license, author, tuple(metrics or ()), notes)
    assemble(load_pipeline(pipeline), kb, out, info=info)
    if not notes:
        msg.warn(
            "The pipeline has no notes on licences; before you publish it, add them with --licenses"
        )
    msg.good(f"Assembled {out}; to package it: python -m spacy package {out} PACKAGES -b wheel")


@command(pel, "doctor", no_args_is_help=False)
def doctor_cli(
    pipeline: Annotated[Text, Argument(help="Folder or name of a trained pipeline")] = None,
    kb: OtherKB = None,
) -> None:
    """Check the installation, a pipeline and its KB.

    Use it when something does not work: it prints its findings with their remedies. The exit code is 1
    if linking would fail.

    \b
    Examples:
      python -m spacy pel doctor
      python -m spacy pel doctor training/model-best --kb kb/other
    """
    from ..package.diagnose import BROKEN, diagnose

    findings = list(diagnose(pipeline, kb))
    for finding in findings:  # not by wasabi, which would break paths and commands
        mark = "BROKEN" if finding.state == BROKEN else finding.state
        say(f"{mark:6} {finding.subject}: {finding.found}", fg=_COLOURS[mark])
        if finding.remedy:
            say(f"    -> {finding.remedy}")
    if any(finding.state == BROKEN for finding in findings):
        raise typer.Exit(1)


_GOLD = "Files whose mentions have ids (.pubtator, .jsonl, .xml, .spacy, ...; also .gz), or folders"
Corpora = Annotated[list[Path], Argument(help=_GOLD)]
Limit = Annotated[int, Option(min=0, help="Number of documents to read per file; 0: all")]
_bars = partial(progress_bar, unit=" documents")


@command(pel, "evaluate")
def evaluate_cli(
    pipeline: Pipeline,
    corpus: Corpora,
    output: Annotated[File, Option("--output", "-o", help="JSON file to write")] = None,
    kb: OtherKB = None,
    limit: Limit = 0,
    spans_key: SpansKey = None,
    rerank: Annotated[int | None, Option(min=0, help="Candidates to rerank; 0: none")] = None,
) -> None:
    """Score a linker on documents with gold mentions.

    Use it on documents that the pipeline was not trained on. It prints recall@1, @5, @16 and @64 and the
    mean reciprocal rank (MRR): over all mentions, over mentions whose entity is in the KB, and over
    entities seen and unseen in training. Only the linker runs, on the gold mentions. A gold id that the KB
    lacks counts as a miss. Recall and MRR ignore whether the linker predicts NIL; the file has more
    metrics, such as the F1 of NIL. To measure the effect of a reranker, evaluate again with --rerank 0.

    \b
    Example:
      python -m spacy pel evaluate training/model-best dev.pubtator.gz
      python -m spacy pel evaluate training/model-best test.pubtator.gz --output test.json
    """
    from ..evaluation.evaluate import evaluate
    from ..io.whole_files import pointed_to, whole_file
    from ..metrics.linking import metrics_table, nil_summary
    from ..pipeline.pipelines import linker_of, load_pipeline

    # Open the file first, so that a path that cannot be written fails before the work.
    with whole_file(pointed_to(output)) if output else nullcontext() as file:
        nlp = load_pipeline(pipeline)
        linker = linker_of(nlp, kb=kb, spans_key=spans_key)
        if rerank is not None:
            linker.search.rerank = rerank
        if rerank:
            _ = linker.reranker  # raises PelError if there is none
        metrics = evaluate(nlp, corpus, limit=limit, progress=_bars)
        if file:
            json.dump({"pipeline": pipeline, **metrics}, file, indent=2)
            file.write("\n")
    say(metrics_table(metrics))
    say(nil_summary(metrics["nil"]))
    written = f"; metrics: {output}" if output else ""
    msg.good(f"{metrics['mentions_per_second']:,.0f} mentions per second{written}")


@command(pel, "calibrate")
def calibrate_cli(
    pipeline: Pipeline,
    corpus: Corpora,
    kb: OtherKB = None,
    limit: Limit = 0,
    spans_key: SpansKey = None,
    jointly: Annotated[bool | None, Option(help="Fit joint linking [default: unchanged]")] = None,
    texts: Annotated[
        list[Path], Option(help="Plain texts, to learn senses of abbreviations; repeatable")
    ] = [],
) -> None:
    """Fit the ranking, the probabilities and the NIL threshold of a pipeline.

    Use it after training, on documents that the pipeline was not trained on: a few hundred mentions
    suffice, a few thousand are better. It changes settings in the folder of the pipeline; weights and
    vectors stay as they are. It fits:

    \b
    ranking          The order of the 8 best candidates, and the probability of each.
    NIL threshold    A mention is NIL (the KB lacks its entity) if the probability that any candidate
                     is correct is below it. Without gold NIL mentions there is no threshold.
    joint linking    With --jointly, for pel link --jointly and pel discover: when two mentions get
                     the same entity. --no-jointly removes it.
    senses           With --texts, the words around the long names of ambiguous abbreviations in
                     these texts. Without it, the fitted words stay.

    The printed figures come from five-fold cross-validation: each document is scored by a ranking that was
    fitted without it.

    \b
    Example:
      python -m spacy pel calibrate training/model-best dev.pubtator.gz
    """
    from ..calibration.calibrate import calibrate_folder
    from ..metrics.linking import nil_summary

    report = calibrate_folder(
        pipeline,
        corpus,
        kb=kb,
        spans_key=spans_key,
        limit=limit,
        jointly=jointly,
        texts=texts,
        progress=_bars,
    )
    if report.nil_threshold is None:
        msg.warn("No gold mention is NIL: no threshold was fitted, and none is set")
    else:
        threshold = 100 * report.nil_threshold
        say(f"NIL if the probability that a candidate is correct is below {threshold:.0f} %")
    say(nil_summary(report.nil))
    before, after = 100 * report.recall_before, 100 * report.recall_after
    say(f"Recall@1 in the KB: {after:.1f} % by the ranking, {before:.1f} % by the scores")
    say(f"The probabilities hold for mentions of {report.fitted_on}")
    say(f"Expected calibration error: {100 * report.error:.1f}")
    if report.sure is not None:
        share, correct = (100 * part for part in report.sure)
        say(
            f"{share:.0f} % of mentions have a probability of 90 % or more: {correct:.1f} % correct"
        )
    if report.joint is not None:
        alone, accuracy = 100 * report.joint.accuracy_alone, 100 * report.joint.accuracy
        if report.joint.settings.linking.k:
            say(f"Linked jointly: {accuracy:.1f} % correct instead of {alone:.1f} %")
        else:
            msg.warn(f"Linked jointly, no more mentions are correct ({alone:.1f} %)")
        index = report.joint.agreement
        say(f"Clusters of mentions with the same meaning: adjusted Rand index {index:.2f}")
    msg.good(f"Calibrated {pipeline} on {report.mentions:,} mentions")


@command(pel, "serve")
def serve_cli(
    pipeline: Pipeline,
    host: Annotated[str, Option(help="Address to listen on")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0: any free port")] = 8000,
    kb: OtherKB = None,
    entity_url: Annotated[Text, Option(help='URL of an entity, with "{id}" for its id')] = None,
    max_body: Annotated[int, Option(min=1, help="Maximum bytes of a request")] = 1_048_576,
    max_documents: Annotated[int, Option(min=1, help="Maximum documents of a request")] = 64,
    max_text: Annotated[
        int, Option(min=1, max=1_000_000, help="Maximum characters of one")
    ] = 20_000,
    timeout: Annotated[
        float, Option(min=0.1, max=3600, help="Maximum seconds of a request")
    ] = 30.0,
    max_per_client: Annotated[
        int, Option(min=1, help="Maximum requests in flight per client")
    ] = 16,
    workers: Annotated[int, Option(min=1, help="Processes, each with its own pipeline")] = 1,
    allow_fix: Annotated[bool, Option("--allow-fix", help="Store corrections in the KB")] = False,
    gpu_id: GpuId = -1,
    mcp: Annotated[bool, Option("--mcp", help="Serve MCP tools on stdin and stdout")] = False,
) -> None:
    """Serve a web page and an HTTP API that link texts.

    Use it to try a pipeline, to correct its links, or to link texts from other programs. The page is at /,
    the description of the API at /docs, and the metrics for Prometheus at /metrics. Requests over a limit
    are rejected. There is no login: everyone who can reach the address can use the server. Corrections of
    "pel fix" take effect at once. Restart the server after "kb change" or "kb embed".

    With --allow-fix, "Apply" on the page stores a correction in the KB, as "pel fix" does. Everyone who can
    reach the server can then store corrections.

    With --mcp, language models get tools through the Model Context Protocol, and there is no page: "link"
    links a text, "search" finds entities by words or id, and "ground" finds the ids of names. With a KB
    instead of a pipeline, there is no "link".

    \b
    Examples:
      python -m spacy pel serve training/model-best
      python -m spacy pel serve training/model-best --mcp
      python -m spacy pel serve en_demo_proxy_linker --port 8080 \\
        --entity-url "https://uts.nlm.nih.gov/uts/umls/concept/{id}"
    """
    needed = ("mcp",) if mcp else ("fastapi", "fastapi_offline", "prometheus_client", "uvicorn")
    for package in needed:
        if find_spec(package) is None:  # importing it would take a second
            remedy = f'install the extra: pip install "spacy-pel[{"mcp" if mcp else "serve"}]"'
            raise PelError(f"the server needs {package}", remedy)
    if mcp:  # stdout is reserved for the protocol
        from ..serve.mcp_tools import serve_tools

        serve_tools(pipeline, kb, gpu_id)
        return
    from ..serve.limits import Limits
    from ..serve.network import address, is_local, listen, run_app

    if entity_url and "{id}" not in entity_url:
        remedy = "give one such as https://uts.nlm.nih.gov/uts/umls/concept/{id}"
        raise PelError(f'{entity_url}: the URL lacks "{{id}}"', remedy)
    limits = Limits(max_body, max_documents, max_text, timeout, max_per_client)
    with listen(host, port) as listener:
        url, local = address(listener), is_local(listener)
        say(f"Starting at {url}; requests wait until it serves")
        if not local:
            use = "use the server and change its KB" if allow_fix else "use the server"
            msg.warn(f"Everyone who can reach this computer can {use}: there is no login")
        say(f"Loading the pipeline {pipeline}")
        # Imported here, since it takes seconds: the address is printed first.
        from ..batch.link_docs import Linking
        from ..serve.app import create_app

        linking = Linking(pipeline, kb, candidates=5, gpu_id=gpu_id)
        if workers == 1:
            app = create_app(linking, limits, entity_url, local, allow_fix)
            say(f"Serving at {url} (Ctrl-C stops it)")
            run_app(app, listener, limits)
        else:
            _ = replace(linking).nlp  # raises errors here; each process loads its own pipeline
            make_app = partial(create_app, linking, limits, entity_url, local, allow_fix)
            say(f"Serving at {url} with {workers} processes (Ctrl-C stops them)")
            run_app(make_app, listener, limits, workers)
    say("Stopped")
