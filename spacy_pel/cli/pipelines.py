"""``pel start``, ``train``, ``evaluate``, ``calibrate``, ``assemble``, ``serve``, ...: about pipelines."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from ..errors import PelError
from .apps import (
    AsJson,
    Component,
    File,
    Files,
    Force,
    GpuId,
    OtherKB,
    Pipeline,
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
    pel,
    "start",
    after_all="what is done is kept beside OUT, and the same command goes on from there",
)
def start_cli(
    paths: Sources,
    encoder: Annotated[Text, Option(help="BERT or pipeline [default: en_pel_mesh_sm]")] = None,
    below: Annotated[Texts, Option(help="Link to an id and all below it; repeatable")] = None,
    format: Annotated[Text, Option(help='Format of the sources, as for "kb build"')] = None,
    column: Annotated[Texts, Option(metavar="FIELD=COLUMN", help='As for "kb build"')] = None,
    force: Force = False,
) -> None:
    """Make a pipeline that links to your ontology.

    This needs no annotations and no training. It builds a knowledge base of the sources, and computes
    a vector for each name with the encoder: some 4 minutes for 50,000 names with a BERT of 6 layers on
    one core. The encoder is a BERT, by its Hugging Face name or its folder, or a trained pipeline.

    A CSV with the columns "id", "name" and "synonyms" (separated by | or ;) needs no options. If a source
    needs other options than these, build a KB from it first, with "kb build", and give its folder as
    SOURCE. After an interruption, run the same command again: it goes on where it was.

    \b
    Examples:
      python -m spacy pel start hp.obo linker --encoder sentence-transformers/all-MiniLM-L6-v2
      python -m spacy pel start hp.obo linker --below HP:0000118
      python -m spacy pel start mondo.obo hp.obo linker --encoder models/sapbert
      python -m spacy pel start codes.csv linker --column concept_id=Code --column canonical_name=Title
    """
    from ..package.start import start

    sources, out = sources_and_folder(paths)
    fitting = partial(progress_bar, unit=" names")
    shown = {"reading": reading, "encoding": encoding, "fitting": fitting}
    read = {"format": format, "columns": columns_of(column or [])}
    made = start(sources, out, encoder=encoder, below=below or (), **read, force=force, **shown)
    rows = made.settings["vectors"]["rows"]
    msg.good(f"Made {out}: it links to {len(made):,} entities with {rows:,} vectors")
    say(f"To link texts: python -m spacy pel link {out} texts.txt --output linked.jsonl")
    say(f"To see it: python -m spacy pel serve {out}")


@command(pel, "copy")
def copy_cli(pipeline: Pipeline, out: Out) -> None:
    """Copy a pipeline with its KB, to change it.

    An installed package stays as it was installed. In the copy "kb change" adds entities and synonyms,
    and "fix" stores corrections. OUT must be new.

    \b
    Example:
      python -m spacy pel copy en_pel_mesh_sm my_pipeline
      python -m spacy pel kb change add my_pipeline drugs.csv
      python -m spacy pel link my_pipeline notes.txt
    """
    from ..package.copy_pipeline import copy_pipeline

    say(f"Copying {pipeline} and its KB to {out}; every byte of the KB is checked")
    with copy_pipeline(pipeline, out) as kb:
        msg.good(f"Copied {pipeline} to {out}: it links to {len(kb):,} entities")


@command(pel, "fix")
def fix_cli(
    pipeline: Annotated[str, Argument(help="Folder of a pipeline, or of a KB")],
    export: Annotated[Files, Argument(metavar="[EXPORT]...", help="Files: see above")] = None,
    name: Annotated[Text, Option(help="A name that you decide about")] = None,
    id: Annotated[Text, Option(help="Id of its entity; NIL: it is none")] = None,
    scope: Annotated[Text, Option(help="always, label or text [default: see above]")] = None,
    label: Annotated[Text, Option(help="Label of the mentions, for the scope label")] = None,
    text: Annotated[Text, Option(help="Text with the name, for the scope text")] = None,
    undo: Annotated[Texts, Option(help="Number of a correction, or all; repeatable")] = None,
    from_: Annotated[Text, Option("--from", help="Format of EXPORT [default: by its name]")] = None,
) -> None:
    """Correct answers: decide what a name means.

    EXPORT is what the page of "pel serve" exports after you corrected an answer there, or documents whose
    mentions have ids. A mention with a score has the answer of a linker, and is left out. Or decide about
    one name with --name and --id. Without either, the corrections are listed.

    \b
    A correction holds in its scope:
    always    wherever the name is a mention
    label     for mentions with this label
    text      in the same text, and in texts that share many of its rare words

    By default that is "text" for a name of an EXPORT that has another meaning: the KB knows another entity
    by it, it is an acronym, or the corrections differ. Else it is "always", or "label" with --label.

    It goes before everything that was learnt, with the probability 1, also in a server that is running. A
    later correction about the same replaces an earlier one. To correct an installed package, copy it first.

    \b
    Examples:
      python -m spacy pel fix my_pipeline linked.json
      python -m spacy pel fix my_pipeline --name RA --id D006325
      python -m spacy pel fix my_pipeline --name cold --id NIL --label Chemical
      python -m spacy pel fix my_pipeline
      python -m spacy pel fix my_pipeline --undo 2
    """
    from ..kb import KnowledgeBase
    from ..kb.corrections import undo as take_back
    from ..kb.location import kb_folder, kb_to_change

    if bool(name) != bool(id):
        raise PelError("--name and --id go together", "as in --name RA --id D006325")
    if sum(map(bool, (export, name, undo))) > 1:
        raise PelError("several things to do", "give one: EXPORT, --name or --undo")
    if not (export or name or undo):
        with KnowledgeBase.open(kb_folder(pipeline)) as kb:
            known = kb.corrections.decisions
            names = {
                d.concept_id: kb[d.concept_id].canonical_name for d in known if d.concept_id in kb
            }
        for each in known:
            say(f"{each.number}\t{each}\t{names.get(each.concept_id, '')}")
        if not known:
            msg.text(f"{pipeline} has no corrections")
        return
    folder = kb_to_change(pipeline)
    if undo:
        if wrong := [each for each in undo if each != "all" and not each.isdecimal()]:
            raise PelError(
                f"--undo {wrong[0]}: is no number", "give one that the list shows, or all"
            )
        gone = take_back(folder, None if "all" in undo else map(int, undo))
        msg.good(f"Took {len(gone):,} corrections out of {pipeline}")
        return
    from ..curation.corrections import Correction, fix, read_corrections

    chosen = scope or ("label" if label else "")
    unknown: list[str] = []
    given = [Correction(name or "", id or "", chosen, label or "", text or "")]
    if export:
        given = []
        with KnowledgeBase.open(folder) as kb:
            for path in export:
                read = read_corrections(path, kb, from_, chosen, label or "")
                given += read.corrections
                unknown += read.unknown
    stored = fix(folder, given)
    for each in stored:
        say(f"{each.number}\t{each}")
    if unknown:
        msg.warn(f"Left out, as the KB lacks their ids: {', '.join(unknown[:10])}")
    if not stored:
        msg.warn("Nothing to correct: no mention has an id that a person gave it")
    else:
        undo_it = f"python -m spacy pel fix {pipeline} --undo NUMBER"
        msg.good(f"Stored {len(stored):,} corrections; to take one back: {undo_it}")


@command(pel, "assemble")
def assemble_cli(
    pipeline: Pipeline,
    kb: Annotated[Path, Argument(metavar="KB", help="Folder of a KB with the pipeline's vectors")],
    out: Out,
    metrics: Annotated[Files, Option(help='File of "pel evaluate"; may be repeated')] = None,
    licenses: Annotated[File, Option(help="Licences of sources, texts and weights (text)")] = None,
    name: Annotated[Text, Option(help="Name of the package")] = None,
    version: Annotated[Text, Option(help="Version of the package")] = None,
    description: Annotated[Text, Option(help="What the pipeline is for")] = None,
    license: Annotated[Text, Option(help="Licence of the package")] = None,
    author: Annotated[Text, Option(help="Who made the pipeline")] = None,
    force: Force = False,
    component: Component = "proxy_linker",
) -> None:
    """Put a pipeline and its KB in one folder.

    The folder can be moved, or packaged with "spacy package". Its meta.json and its model card
    (README.md) give the version, the KB with its releases, the licences, and the metrics.

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
    assemble(load_pipeline(pipeline), kb, out, component=component, info=info)
    if not notes:
        msg.warn("It has no notes on licences: before you pass it on, give some with --licenses")
    msg.good(f"Assembled {out}; to package it: python -m spacy package {out} PACKAGES -b wheel")


@command(pel, "average")
def average_cli(
    pipeline: Pipeline,
    encoder: Annotated[str, Argument(help="BERT or pipeline that the training began with")],
    out: Out,
    share: Annotated[float, Option(min=0.0, max=1.0, help="Weight of the trained linker")] = 0.5,
    force: Force = False,
    component: Component = "proxy_linker",
) -> None:
    """Average a trained linker with its encoder before training.

    After a training on other texts than yours, such as mined mentions, the average often links better
    than either: measure both. It needs new vectors, and has to be calibrated again.

    \b
    Example:
      python -m spacy pel average training/model-last sentence-transformers/all-MiniLM-L6-v2 linker
      python -m spacy pel kb embed kb linker
    """
    from ..io.whole_files import whole_folder
    from ..package.assemble import check_replaceable
    from ..package.average_weights import average_weights
    from ..pipeline.pipelines import load_pipeline

    check_replaceable(out, force=force)
    nlp = load_pipeline(pipeline)
    average_weights(nlp, encoder, share, component=component)
    with whole_folder(out) as folder:
        nlp.to_disk(folder)
    msg.good(f"Averaged: {out}; it needs vectors: python -m spacy pel kb embed KB {out}")


@command(pel, "doctor", no_args_is_help=False)
def doctor_cli(
    pipeline: Annotated[Text, Argument(help="Folder or name of a trained pipeline")] = None,
    kb: OtherKB = None,
    component: Component = "proxy_linker",
    as_json: AsJson = False,
) -> None:
    """Check the installation, a pipeline and its KB.

    Prints what was found, and what to do about it. The exit code is 1 if linking would fail.

    \b
    Examples:
      python -m spacy pel doctor
      python -m spacy pel doctor training/model-best --kb kb/other --json
    """
    from ..package.diagnose import BROKEN, diagnose

    findings = list(diagnose(pipeline, kb, component))
    if as_json:
        say(json.dumps([finding._asdict() for finding in findings], indent=2))
    for finding in () if as_json else findings:  # wasabi would break paths and commands
        mark = "BROKEN" if finding.state == BROKEN else finding.state
        say(f"{mark:6} {finding.subject}: {finding.found}", fg=_COLOURS[mark])
        if finding.remedy:
            say(f"    -> {finding.remedy}")
    if any(finding.state == BROKEN for finding in findings):
        raise typer.Exit(1)


@command(
    pel,
    "train",
    after_all="all that was saved before is whole, and --resume goes on from it",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def train_cli(
    ctx: typer.Context,
    config: Annotated[str, Argument(help='Config file, or one of ours, such as "mesh_document"')],
    output: Annotated[Path, Option("--output", "-o", help="Folder for pipeline, checkpoint, log")],
    resume: Annotated[bool, Option("--resume", help="Go on from OUTPUT's checkpoint")] = False,
    gpu_id: GpuId = -1,
) -> None:
    """Train a pipeline, with checkpoints and a log.

    The weights are those of "spacy train". OUTPUT also gets a line of log.jsonl for each step, and a
    checkpoint at each evaluation. After a crash, run the same command with --resume: it ends with the
    same weights as a run without the crash. Without --resume, files of an earlier run in OUTPUT are
    replaced, its pipelines at the first evaluation.

    Settings of the config can be given as options:

    \b
    Examples:
      python -m spacy pel train configs/demo.cfg --output training/demo --training.max_steps 300
      python -m spacy pel train mesh_document --output training/mesh --paths.data DATA --paths.encoder BERT
    """
    from spacy.cli._util import parse_config_overrides, setup_gpu, show_validation_error
    from spacy.util import load_config

    from ..package.shipped_files import config_file
    from ..pipeline.pipelines import unknown_names_explained
    from ..training.loop import run_training, start_training

    overrides = parse_config_overrides(ctx.args)
    setup_gpu(gpu_id)
    path = config_file(config)
    with show_validation_error(path):
        loaded = load_config(path, overrides=overrides, interpolate=False)
    initialising = show_validation_error(path, hint_fill=False)
    with unknown_names_explained(path), initialising, _whole_log():
        run = start_training(loaded, output, resume=resume, gpu_id=gpu_id, report=msg.info)
    if run is None:
        msg.good(f"Training is finished: {output / 'model-best'}, {output / 'model-last'}")
        return
    if run.progress.step >= 0:
        msg.info(f"Going on after step {run.progress.step}")
    most = run.settings["max_steps"]
    steps = {"initial": run.progress.step + 1, "total": most + 1 if most else None}
    with progress_bar(**steps, desc="Training", unit=" steps") as bar:

        def show(line: dict[str, Any]) -> None:
            if "scores" in line:
                bar.write(_evaluation(line))
            else:
                loss, rate = line["loss"] + line["adversarial"], line["mentions_per_second"]
                bar.set_postfix_str(f"loss {loss:.3f}, {rate:.0f} mentions/s", refresh=False)
                bar.update()

        run_training(run, show)
    if not run.keeps_checkpoints:
        msg.warn(
            "No checkpoint was kept: that needs the optimizer spacy-pel.AdamW.v1, and torch "
            "weights in every component that is trained"
        )
    msg.good(f"Trained: {output / 'model-best'}, {output / 'model-last'}")


@contextmanager
def _whole_log() -> Iterator[None]:
    """Within the block, all that the package logs is printed: initialising a pipeline takes minutes."""
    logger = logging.getLogger("spacy_pel")
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)


def _evaluation(line: dict[str, Any]) -> str:
    scores = ", ".join(
        f"{name.removeprefix('nel_')} {100 * line['scores'][name]:.1f}"
        for name in ("nel_recall_at_1", "nel_recall_at_64", "nel_mrr")
        if name in line["scores"]
    )
    return f"Step {line['step']}: {scores or round(line['score'], 3)}{' (best)' * line['is_best']}"


_GOLD = "Files whose mentions have ids (.pubtator, .jsonl, .xml, .spacy, ...; also .gz), or folders"
Corpora = Annotated[list[Path], Argument(help=_GOLD)]
Limit = Annotated[int, Option(min=0, help="Number of documents taken of each file; 0 takes all")]
_bars = partial(progress_bar, unit=" documents")


@command(pel, "evaluate")
def evaluate_cli(
    pipeline: Pipeline,
    corpus: Corpora,
    output: Annotated[File, Option("--output", "-o", help="JSON file to write")] = None,
    kb: OtherKB = None,
    limit: Limit = 0,
    spans_key: SpansKey = None,
    rerank: Annotated[int | None, Option(min=0, help="Candidates reranked; 0: none")] = None,
    component: Component = "proxy_linker",
) -> None:
    """Score linking on gold mentions.

    Prints recall@1, @5, @16 and @64, and the mean reciprocal rank (MRR): over all mentions, over those
    whose entity is in the KB, and over entities seen and unseen in training. Only the linker runs:
    mentions are those of the corpus. A gold id that the KB lacks counts as a miss. Recall and MRR look
    at the candidates, even if the linker says NIL. The file has more, such as the F1 of saying NIL. To
    see what a reranker gains, evaluate a second time with --rerank 0.

    \b
    Example:
      python -m spacy pel evaluate training/model-best dev.pubtator.gz
      python -m spacy pel evaluate training/model-best test.pubtator.gz --output test.json
    """
    from ..evaluation.evaluate import evaluate
    from ..io.whole_files import pointed_to, whole_file
    from ..metrics.linking import metrics_table, nil_summary
    from ..pipeline.pipelines import linker_of, load_pipeline

    # The file is opened first: a path that cannot be written to is told before the work.
    with whole_file(pointed_to(output)) if output else nullcontext() as file:
        nlp = load_pipeline(pipeline)
        linker = linker_of(nlp, component, kb=kb, spans_key=spans_key)
        if rerank is not None:
            linker.search.rerank = rerank
        if rerank:
            linker.reranker  # refuses a pipeline without one
        metrics = evaluate(nlp, corpus, component=component, limit=limit, progress=_bars)
        if file:
            json.dump({"pipeline": pipeline, **metrics}, file, indent=2)
            file.write("\n")
    say(metrics_table(metrics))
    say(nil_summary(metrics["nil"]))
    written = f"; metrics: {output}" if output else ""
    msg.good(f"{metrics['mentions_per_second']:,.0f} mentions a second{written}")


@command(pel, "calibrate")
def calibrate_cli(
    pipeline: Pipeline,
    corpus: Corpora,
    kb: OtherKB = None,
    limit: Limit = 0,
    spans_key: SpansKey = None,
    component: Component = "proxy_linker",
    jointly: Annotated[bool | None, Option(help="Fit joint linking [default: as before]")] = None,
) -> None:
    """Tune NIL and probabilities on dev.

    Give a corpus that the pipeline was not trained on. The settings of the pipeline are changed in
    its folder; its weights and vectors stay. These are fitted:

    \b
    ranking          The order of the 8 best candidates, and the probability of each.
    NIL threshold    A mention is NIL (the KB lacks its entity) if the probability that a candidate
                     is right is below it. Without gold mentions that are NIL there is none.
    joint linking    With --jointly, for pel link --jointly and pel discover: when two mentions get
                     one entity. --no-jointly drops it.

    Some hundred mentions suffice, some thousand are better. The figures printed are of documents
    that were left out when a ranking was fitted, five times a fifth of them.

    \b
    Example:
      python -m spacy pel calibrate training/model-best dev.pubtator.gz
    """
    from ..calibration.calibrate import calibrate_folder
    from ..metrics.linking import nil_summary

    where = {"component": component, "kb": kb, "spans_key": spans_key}
    fitted = {"limit": limit, "jointly": jointly, "progress": _bars}
    report = calibrate_folder(pipeline, corpus, **where, **fitted)
    if report.nil_threshold is None:
        msg.warn("No mention is NIL: nothing to tune a threshold on, and none is set")
    else:
        say(f"NIL where a candidate is right with less than {100 * report.nil_threshold:.0f} %")
    say(nil_summary(report.nil))
    before, after = 100 * report.recall_before, 100 * report.recall_after
    say(f"Recall@1 in the KB: {after:.1f} % by the ranking, {before:.1f} % by the scores")
    say(f"The probabilities hold for mentions of {report.fitted_on}")
    say(f"Expected calibration error: {100 * report.error:.1f}")
    if report.sure is not None:
        share, right = (100 * part for part in report.sure)
        say(f"{share:.0f} % of mentions are 90 % sure or more; {right:.1f} % of these are right")
    if report.joint is not None:
        alone, jointly = 100 * report.joint.accuracy_alone, 100 * report.joint.accuracy
        if report.joint.settings.linking.k:
            say(f"Linked jointly: {jointly:.1f} % right instead of {alone:.1f} %")
        else:
            msg.warn(f"Linked jointly, no more mentions are right than one by one ({alone:.1f} %)")
        index = f"an adjusted Rand index of {report.joint.agreement:.2f}"
        say(f"Mentions that mean the same are found with {index}")
    msg.good(f"Calibrated {pipeline} on {report.mentions:,} mentions")


@command(pel, "serve")
def serve_cli(
    pipeline: Pipeline,
    host: Annotated[str, Option(help="Address to listen at")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0 takes any that is free")] = 8000,
    kb: OtherKB = None,
    spans_key: SpansKey = None,
    entity_url: Annotated[Text, Option(help='URL of an entity, with "{id}" for its id')] = None,
    candidates: Annotated[int, Option(min=1, help="Candidates given for each mention")] = 5,
    max_body: Annotated[int, Option(min=1, help="Largest size of a request, in bytes")] = 1_048_576,
    max_documents: Annotated[int, Option(min=1, help="Most documents of a request")] = 64,
    max_text: Annotated[int, Option(min=1, max=1_000_000, help="Most characters of one")] = 20_000,
    max_mentions: Annotated[int, Option(min=1, help="Most mentions given for a document")] = 500,
    timeout: Annotated[float, Option(min=0.1, max=3600, help="Most seconds for a request")] = 30.0,
    max_waiting: Annotated[int, Option(min=1, help="Most requests in flight")] = 128,
    max_per_client: Annotated[int, Option(min=1, help="Most of them of one client")] = 16,
    workers: Annotated[int, Option(min=1, help="Processes that serve, each with a pipeline")] = 1,
    allow_fix: Annotated[bool, Option("--allow-fix", help="Store corrections in the KB")] = False,
    gpu_id: GpuId = -1,
    mcp: Annotated[bool, Option("--mcp", help="Serve tools on stdin and stdout")] = False,
    component: Component = "proxy_linker",
) -> None:
    """Serve a web page and an API that link texts.

    The page is at /. The API is described at /docs. Figures for Prometheus are at /metrics. Requests
    beyond a limit are refused. There is no login: everyone who can reach the address can use the
    server. Restart it after the KB has changed.

    With --allow-fix, "Apply" on the page stores a correction in the KB, as "pel fix" does, and so can
    everyone who can reach the server.

    With --mcp there is no page. Language models then have tools by the Model Context Protocol: "link"
    links a text, "search" finds entities by words, "ground" finds the ids of names, and "check" does
    what "pel check" does. It also serves a KB alone, without "link".

    \b
    Examples:
      python -m spacy pel serve training/model-best
      python -m spacy pel serve training/model-best --mcp
      python -m spacy pel serve en_demo_proxy_linker --port 8080 \\
        --entity-url "https://uts.nlm.nih.gov/uts/umls/concept/{id}"
    """
    needed = ("fastapi", "fastapi_offline", "prometheus_client", "uvicorn")
    for package in ("mcp",) if mcp else needed:
        if find_spec(package) is None:  # not imported: it takes a second
            remedy = f'install its extra: pip install "spacy-pel[{"mcp" if mcp else "serve"}]"'
            raise PelError(f"the server needs {package}", remedy)
    if mcp:  # stdout is for its messages alone
        from ..serve.mcp_tools import serve_tools

        serve_tools(pipeline, component, kb, gpu_id)
        return
    from ..serve.limits import Limits
    from ..serve.network import address, is_local, listen, run_app

    if entity_url and "{id}" not in entity_url:
        remedy = "give one such as https://uts.nlm.nih.gov/uts/umls/concept/{id}"
        raise PelError(f'{entity_url}: not an address with "{{id}}" in it', remedy)
    sizes = max_body, max_documents, max_text, max_mentions
    limits = Limits(*sizes, timeout, max_waiting, max_per_client)
    with listen(host, port) as listener:
        url, local = address(listener), is_local(listener)
        say(f"Starting at {url}; requests wait until it serves")
        if not local:
            use = "use the server and change its KB" if allow_fix else "use the server"
            msg.warn(f"Whoever reaches this computer can {use}: there is no login")
        say(f"Loading the pipeline {pipeline}")
        # Imported here, as it takes seconds: the address is said before.
        from ..batch.link_docs import Linking
        from ..serve.app import create_app

        linking = Linking(pipeline, component, kb, spans_key, candidates, gpu_id=gpu_id)
        if workers == 1:
            app = create_app(linking, limits, entity_url, local, allow_fix)
            say(f"Serving at {url} (Ctrl-C ends it)")
        else:
            replace(linking).nlp  # tells an error; each process loads its own
            app = partial(create_app, linking, limits, entity_url, local, allow_fix)
            say(f"Serving at {url} by {workers} processes (Ctrl-C ends them)")
        run_app(app, listener, limits, workers)
    say("Stopped")
