"""Running: train, encode the knowledge base and evaluate, each only once."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import spacy
from filelock import FileLock, Timeout
from papers.cross_fitting import evaluate_cross_fitted
from papers.joint_metrics import cross_fitted_discovery, joint_metrics
from papers.macro_average import averaged_metrics
from papers.oracle_reranking import oracle_recall
from spacy.language import Language
from spacy.training.initialize import init_nlp
from spacy.util import load_config

from spacy_pel.errors import PelError
from spacy_pel.fitting.evaluate import evaluate
from spacy_pel.fitting.learn_mentions import learn_mentions_of
from spacy_pel.jobs.embed import embed_kb, is_embedded
from spacy_pel.pipeline.pipelines import linker_of, load_pipeline
from spacy_pel.pipeline.proxy_linker import ProxyLinker
from spacy_pel.system.whole_files import whole_file, whole_folder

from .configs import FITTED, Choices, Run, filled, places_of
from .corpora import WORLDS, Corpus
from .results import Results
from .sampling import write_sample
from .training_log import recall_curve, training_summary
from .variants import Variant

# The keys of the result of "evaluate" that are no figures.
NO_FIGURES = ("kb", "corpus", "linker")


class Runner:
    """Does runs one after another, and keeps the config, log, metrics and result line of each.

    If a process is killed, the finished steps of its run stay in the work folder, and the next
    process goes on from them. Several processes may share the folders.

    Args:
        profile: The name of the profile.
        results: The folder of what is kept.
        work: The folder of weights and vectors, which are deleted when no later run needs them.
        keep: Keep them all the same.
        gpu_id: The number of the GPU; -1 for the CPU.
    """

    def __init__(self, profile: str, results: Path, work: Path, *, keep: bool, gpu_id: int = -1):
        self.profile = profile
        self.folder = results
        self.results = Results(results / "results.jsonl")
        self.work = work
        self.keep = keep
        self.gpu_id = gpu_id
        if gpu_id >= 0:
            spacy.require_gpu(gpu_id)  # for what is done in this process

    def prepare(self, corpus: Corpus, choices: Choices, variants: Sequence[Variant]) -> None:
        """Make what the runs of a corpus share: its knowledge base, and an aligned encoder."""
        places = places_of(corpus, choices, self.work)
        folder = Path(places["work"])
        done = folder / "prepared.json"
        needed = [corpus.alignment] * any(v.needs == "alignment" for v in variants)
        commands = filled([*corpus.prepare, *needed], places)
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            finished = json.loads(done.read_text("utf8")) if done.exists() else []
            if choices.samples(corpus) and not finished:
                corpora = map(Path, filled([*corpus.train, *corpus.dev.values()], places))
                source = Path(filled(corpus.source, places))
                write_sample(source, corpora, choices.entities, Path(places["source"]))
            for arguments in commands:
                if arguments not in finished:
                    _pel(arguments + self._gpu if arguments[0] == "train" else arguments)
                    finished.append(arguments)
                    with whole_file(done) as file:
                        json.dump(finished, file)

    def do(self, experiment: str, runs: Sequence[Run]) -> None:
        """Do the runs that are not in the results.

        Raises:
            RuntimeError: A command of a run fails.
        """
        for number, run in enumerate(runs):
            if run.digest not in self.results:
                print(f"[{number + 1}/{len(runs)}] {run.name}", flush=True)
                try:
                    with FileLock(self.work / f".{run.name}.lock", timeout=0):
                        self._do(experiment, run)
                except Timeout:
                    print("another process does this run: left out")
                    continue
            later = {base.digest for each in runs[number + 1 :] for base in each.bases}
            if not self.keep:
                for done in (run, *run.bases):
                    if done.digest not in later and done.digest in self.results:
                        shutil.rmtree(done.folder, ignore_errors=True)

    def _do(self, experiment: str, run: Run) -> None:
        started = time.perf_counter()
        self._train_and_embed(run)
        metrics, fitted = self._evaluate(run)
        line = {
            "experiment": experiment,
            "variant": run.variant.name,
            "profile": self.profile,
            "corpus": run.corpus.name,
            "seed": run.seed,
            "digest": run.digest,
            "commit": _commit(),
            "command": self._command(experiment, run),
            "config": self._config(run),
            "record": f"runs/{run.name}",
            "limit": run.choices.limit,
            "fitted": fitted,
            "minutes": (time.perf_counter() - started) / 60,
            "training": self._training(run),
            "metrics": metrics,
        }
        line = _rounded(line)
        with whole_file(self._record(run) / "metrics.json") as file:
            json.dump(line["metrics"], file, indent=2)
        self.results.append(line)

    def _record(self, run: Run) -> Path:
        return self.folder / "runs" / run.name

    def _command(self, experiment: str, run: Run) -> str:
        """The command that makes the line, among others of the same experiment and seed."""
        where = ["--profile", self.profile, "--corpus", run.corpus.name, "--seeds", str(run.seed)]
        script = ["python", "scripts/experiment.py", "run", experiment]
        return shlex.join([*script, *where, *run.choices.options()])

    def _config(self, run: Run) -> str:
        """The run's config, in which DATA and WORK stand for folders of this machine."""
        text = run.config.to_str().replace(str(self.work), "WORK")
        return text.replace(run.choices.data, "DATA") if run.choices.data else text

    def _training(self, run: Run) -> dict[str, Any]:
        """The figures of the run's training."""
        if run.variant.learnt:
            return self._training(run.retriever)
        if not run.variant.trained:
            return {"steps": 0}
        schedule = run.config["training"]["optimizer"]["learn_rate"]
        log = self._record(run) / "log.jsonl"
        alpha = (run.variant.settings.get("loss") or {}).get("alpha", 1)
        summary = training_summary(log, schedule["warmup_steps"], alpha)
        return {**summary, "curve": recall_curve(log)} if run.corpus.evaluated_every else summary

    def _train_and_embed(self, run: Run) -> None:
        """Train the run's pipeline, and give copies of its KBs the vectors."""
        if run.variant.learnt:
            self._learn(run)
        if run.pipeline.exists():
            return
        for base in run.bases:
            self._train_and_embed(base)
        nlp = load_pipeline(self._train(run))
        for kb in dict.fromkeys([*run.kbs.values(), run.kb]):
            _embed(linker_of(nlp), kb, run.own(kb))
        with whole_folder(run.pipeline) as folder:
            nlp.to_disk(folder)
        shutil.rmtree(run.folder / "training")

    def _learn(self, run: Run) -> None:
        """Give copies of the KBs of the run's retriever the mentions that the variant learns."""
        self._train_and_embed(run.retriever)
        corpus, limit = run.variant.learnt
        corpora = filled(corpus, places_of(run.corpus, run.choices, self.work))
        for kb in dict.fromkeys([*run.kbs.values(), run.kb]):
            if not run.own(kb).exists():
                nlp = load_pipeline(run.pipeline)
                with whole_folder(run.own(kb)) as folder:
                    shutil.copytree(run.retriever.own(kb), folder, dirs_exist_ok=True)
                    learn_mentions_of(folder, corpora, nlp=nlp, limit=limit)

    def _evaluate(self, run: Run) -> tuple[dict[str, Any], str | None]:
        """The metrics of each dev set, and how what was fitted was; None if nothing was.

        Nothing is fitted for worlds, which have KBs of their own and whose averages are added, nor
        for a linker that cannot be calibrated on the dev sets.
        """
        nlp = load_pipeline(run.pipeline)
        if run.corpus.kbs:
            metrics = self._plain_metrics(nlp, run)
            averaged = averaged_metrics(list(metrics.values()))
            return {**metrics, **{name: averaged[kind] for name, kind in WORLDS.items()}}, None
        linker_of(nlp, kb=run.own(run.kb))
        limit, names = run.choices.limit, run.variant.names
        try:
            found = evaluate_cross_fitted(nlp, run.dev, limit=limit, names=names)
            if run.corpus.jointly:
                for name, path in run.dev.items():
                    found[name] |= _joint_figures(nlp, path, run.folder / "lacking", limit)
        except PelError as error:
            print(f"not calibrated: {error}", flush=True)
            return self._plain_metrics(nlp, run), None
        if run.rivals:
            for name, path in run.dev.items():
                found[name]["oracle"] = _oracle_figures(nlp, path, run)
        return {name: _figures(metrics) for name, metrics in found.items()}, FITTED

    def _plain_metrics(self, nlp: Language, run: Run) -> dict[str, Any]:
        """The metrics of each dev set, linked to its own KB by a linker that is not calibrated."""
        metrics = {}
        for name, path in run.dev.items():
            linker_of(nlp, kb=run.own(run.kbs[name]))
            metrics[name] = _figures(evaluate(nlp, [path], limit=run.choices.limit))
        return metrics

    @property
    def _gpu(self) -> list[str]:
        return ["--gpu-id", str(self.gpu_id)]

    def _train(self, run: Run) -> Path:
        """Train; the pipeline's folder. The config and the log are copied to the run's record.

        An untrained variant is initialised alone.
        """
        record, output = self._record(run), run.folder / "training"
        with whole_file(record / "config.cfg") as file:
            file.write(run.config.to_str())
        if not run.variant.trained:
            nlp = init_nlp(load_config(record / "config.cfg"), use_gpu=self.gpu_id)
            with whole_folder(output / "model-last") as folder:
                nlp.to_disk(folder)
            return output / "model-last"
        _pel(["train", str(record / "config.cfg"), "--output", str(output), "--resume", *self._gpu])
        with whole_file(record / "log.jsonl") as file:
            file.write((output / "log.jsonl").read_text(encoding="utf8"))
        return output / "model-last"


def _figures(metrics: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metrics.items() if name not in NO_FIGURES}


def _joint_figures(nlp: Language, path: str, folder: Path, limit: int) -> dict[str, Any]:
    """The figures of a dev set whose mentions are linked together, or without a tenth of its entities."""
    return {
        "jointly": joint_metrics(nlp, path, limit=limit),
        "discovery": cross_fitted_discovery(nlp, path, folder, limit=limit),
    }


def _oracle_figures(nlp: Language, path: str, run: Run) -> dict[str, float]:
    """Recall of a reranker on a dev set, with the right entity always among the candidates."""
    rivals = [load_pipeline(rival.pipeline) for rival in run.rivals]
    for rival, retriever in zip(run.rivals, rivals):
        linker_of(retriever, kb=rival.own(rival.kb))
    return oracle_recall(nlp, [path], retrievers=rivals, limit=run.choices.limit)


def _embed(linker: ProxyLinker, kb: Path, own: Path) -> None:
    """Write the linker's vectors to a folder ``own`` that has hard links to the files of the KB."""
    if not own.exists():
        with whole_folder(own) as folder:
            for file in kb.iterdir():
                if not file.name.startswith("."):
                    os.link(file, folder / file.name)
    linker.set_kb(own)
    if not is_embedded(linker.kb, linker):
        embed_kb(own, linker, report=print)
        linker.set_kb(own)


def _pel(arguments: Sequence[str]) -> None:
    """Run a command of ``pel``, or the script that makes data sets of NIL."""
    own = ["papers.okb"] if arguments[0] == "okb" else ["spacy", "pel", arguments[0]]
    command = [sys.executable, "-m", *own, *arguments[1:]]
    if subprocess.run(command).returncode:
        raise RuntimeError(f"this failed, see above: {' '.join(command)}")


def _commit() -> str | None:
    """The checked-out commit, with a "+" if files were changed; None without git."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return found.stdout.strip() or None


def _rounded(value: Any) -> Any:
    """The value with all its numbers rounded to five digits, which keeps result lines short."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value
