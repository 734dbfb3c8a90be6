"""Run the experiments: train, encode the knowledge base, measure. Each run adds a line to results.jsonl.

    python papers/run.py claim-small --data DATA --encoder BERT --seeds 0,1,2

A table is a file of ``papers/tables``: settings, and axes. Each choice of an axis is a block of settings that
overrides the config, and each combination of choices is a variant. Runs that have a line are skipped.
"""

import hashlib
import json
import random
import shutil
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import srsly
import typer
from filelock import FileLock
from measure import measured
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import load_config, registry
from thinc.api import Config
from thinc.optimizers import FloatOrSeq
from torch import Tensor

from spacy_pel.batch.embed import embed_kb
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.curation.learn_mentions import learn_mentions_of
from spacy_pel.errors import PelError
from spacy_pel.io.lines import numbered_lines
from spacy_pel.io.whole_files import whole_file, whole_folder
from spacy_pel.models.losses import ScoreLoss
from spacy_pel.pipeline.pipelines import linker_of, load_pipeline
from spacy_pel.training.optimizer import AdamW

LINKER = "components.proxy_linker"
HERE = Path(__file__).parent
RESULTS = HERE / "results.jsonl"
NORMS = "norms.txt"


@registry.losses("papers.SumLoss.v1")
class SumLoss(ScoreLoss):
    """The sum of several losses over the same scores."""

    def __init__(self, *losses: ScoreLoss):
        self.losses = losses

    def of_scores(self, positive: Tensor, negatives: Tensor) -> Tensor:
        first, *others = (loss.of_scores(positive, negatives) for loss in self.losses)
        return sum(others, start=first)

    def state(self) -> dict[str, Any]:
        return {"losses": [loss.state() for loss in self.losses]}

    def restore(self, state: dict[str, Any]) -> None:
        for loss, its in zip(self.losses, state.get("losses", [{}] * len(self.losses))):
            loss.restore(its)


@registry.optimizers("papers.AdamW.v1")
class LoggedAdamW(AdamW):
    """AdamW that adds the norm of each step's gradients as a line to a file."""

    def __init__(
        self, learn_rate: FloatOrSeq, weight_decay: float, eps: float, grad_clip: float, norms: str
    ):
        super().__init__(learn_rate, weight_decay=weight_decay, eps=eps, grad_clip=grad_clip)
        self.norms = Path(norms)
        self.norms.unlink(missing_ok=True)

    def update(self, model: Any) -> None:
        super().update(model)
        with self.norms.open("a") as file:
            file.write(f"{self.last_norm}\n")


class Variant(NamedTuple):
    """A variant of training: its choices, such as "Pb, s - b; names as rows", and their settings.

    Settings have dotted names: those of the linker without its prefix, others with a dot in front. Options
    are not in a config: ``trained: false`` for an encoder as it comes, ``reranks`` for the variant whose
    candidates a reranker orders, ``learns`` for a corpus whose mentions become rows.
    """

    name: str
    settings: dict[str, Any]
    options: dict[str, Any]


def read_table(name: str) -> dict[str, Any]:
    """Read a table. It overrides the table of "extends"; "clear" drops the settings of that table.

    PelError if there is none of this name.
    """
    path = HERE / "tables" / f"{name}.yml"
    if not path.exists():
        known = ", ".join(sorted(file.stem for file in path.parent.glob("*.yml")))
        raise PelError(f'no table "{name}"', f"choose one of {known}")
    table = srsly.read_yaml(path)
    if "extends" in table:
        base = read_table(table.pop("extends"))
        inherited = {} if table.pop("clear", False) else base.get("settings", {})
        settings = {**inherited, **table.get("settings", {})}
        table = {**base, **table, "settings": settings}
    return {**table, "name": name}


def variants_of(table: dict[str, Any]) -> list[Variant]:
    """Return the combinations of one choice per axis, then the listed variants."""
    axes = [choices.items() for choices in table.get("axes", {}).values()]
    combined = product(*axes) if axes else ()
    found = []
    for choices in (*combined, *((each,) for each in table.get("variants", {}).items())):
        settings = {key: value for _, block in choices for key, value in (block or {}).items()}
        options = {k: settings.pop(k) for k in ("trained", "reranks", "learns") if k in settings}
        found.append(Variant("; ".join(name for name, _ in choices), settings, options))
    return found


def filled(value: Any, places: dict[str, Any]) -> Any:
    """Copy a value with its {places} replaced, also within dicts and lists."""
    text = json.dumps(value)
    for name, meant in places.items():
        text = text.replace(f"{{{name}}}", json.dumps(meant)[1:-1])
    return json.loads(text)


def make_config(table: dict[str, Any], variant: Variant, seed: int, places: dict) -> Config:
    """Return the config of the table, with the settings of table, variant and seed."""
    reranks = "reranks" in variant.options
    config = load_config(table["reranker" if reranks else "config"], interpolate=False)
    settings = table.get("settings", {})
    if reranks:  # all but the places are those of its config
        paths = {f".paths.{name}" for name in config["paths"]}
        settings = {name: settings[name] for name in paths & settings.keys()}
        settings[".paths.retriever"] = "{retriever}"
    settings = {**settings, **variant.settings, ".system.seed": seed, "kb": "{kb}"}
    for name, value in settings.items():
        *path, last = (name[1:] if name[0] == "." else f"{LINKER}.{name}").split(".")
        section = config
        for part in path:
            section = section[part]
        section[last] = filled(value, places)
    # The figures are those of the scores alone.
    config["components"]["proxy_linker"]["unambiguous_names_first"] = False
    if steps := table["rerank_steps" if reranks else "steps"]:  # else those of the config
        training = config["training"]
        schedule = {"total_steps": steps, "warmup_steps": max(1, steps // 10)}
        training["optimizer"]["learn_rate"].update(schedule)
        epochs = min(0, training["max_epochs"])
        training.update(max_steps=steps, max_epochs=epochs, eval_frequency=steps)
    return config


class Runner:
    """Executes the runs of a table. ``places`` has the values of "{data}" and "{encoder}"."""

    def __init__(self, table: dict[str, Any], places: dict[str, str], work: Path):
        self.work = work
        shared = json.dumps([table.get("kb"), table.get("prepare"), table.get("corpora")])
        self.shared = work / f"kb-{hashlib.sha256(shared.encode()).hexdigest()[:8]}"
        self.places = {**places, "work": str(self.shared)}
        self.places["kb"] = str(self.shared / "kb")
        self.table = filled(table, self.places)
        self.variants = {variant.name: variant for variant in variants_of(self.table)}

    def prepare(self) -> None:
        """Build the knowledge base, and the other files that the runs share, if they are missing."""
        with FileLock(f"{self.shared}.lock"):
            done = self.shared / "prepared"
            if done.exists():
                return
            shutil.rmtree(self.shared, ignore_errors=True)
            self.shared.mkdir(parents=True)
            kb = self.table.get("kb", {})
            if "others" in kb:
                read = Path(kb["source"]), self.table["corpora"], kb.get("documents", 0)
                write_sample(*read, kb["others"], self.shared / "sample.jsonl")
            for command in self.table["prepare"]:
                # "zeshel" is a command of ours, all others are those of "pel".
                module = "papers." if command.startswith("zeshel ") else "spacy pel "
                words = f"{module}{command}".split()
                subprocess.run([sys.executable, "-m", *words], check=True)
            done.touch()

    def run(self, variant: Variant, seed: int) -> dict[str, Any]:
        """Execute a run, and return its line of the results."""
        started = time.perf_counter()
        folder, kb = self._trained(variant, seed)
        nlp = load_pipeline(folder / "pipeline")
        linker = linker_of(nlp)
        dev, figures = dict(self.table["dev"]), {}
        for name, path in self.table.get("kbs", {}).items():
            _embed(linker, Path(path), folder / name)  # a world has a knowledge base of its own
            figures |= measured(nlp, {name: dev.pop(name)}, self.table, folder / "lacking")
        if dev:
            linker.set_kb(kb)
            figures |= measured(nlp, dev, self.table, folder / "lacking")
        return {
            "table": self.table["name"],
            "variant": variant.name,
            "seed": seed,
            "commit": _commit(),
            "steps": 0 if variant.options.get("trained") is False else self.table["steps"],
            "minutes": round((time.perf_counter() - started) / 60, 2),
            **({"bias": round(bias, 4)} if (bias := linker.cfg["loss"].get("bias")) else {}),
            **_training_figures(folder / "training" / NORMS),
            "figures": figures,
        }

    def _trained(self, variant: Variant, seed: int) -> tuple[Path, Path]:
        """Return the folder of a run with its pipeline, and its KB with vectors."""
        name = hashlib.sha256(f"{variant.name} {seed}".encode()).hexdigest()[:12]
        folder = self.work / self.table["name"] / name
        kb, places = folder / "kb", dict(self.places)
        reranks, learns = variant.options.get("reranks"), variant.options.get("learns")
        if reranks or learns:
            base, base_kb = self._trained(self.variants[reranks or learns["of"]], seed)
            places |= {"retriever": str(base / "pipeline"), "kb": str(base_kb)}
        if reranks:
            kb = base_kb
        if (folder / "pipeline").exists():
            return folder, kb
        if learns:
            with whole_folder(kb) as copy:
                shutil.copytree(base_kb, copy, dirs_exist_ok=True)
                corpora, limit = learns["corpora"], learns.get("documents", 0)
                learn_mentions_of(copy, corpora, nlp=load_pipeline(base / "pipeline"), limit=limit)
            with whole_folder(folder / "pipeline") as output:
                shutil.copytree(base / "pipeline", output, dirs_exist_ok=True)
            return folder, kb
        config, training = make_config(self.table, variant, seed, places), folder / "training"
        training.mkdir(parents=True, exist_ok=True)
        if variant.options.get("trained") is False:
            init_nlp(config.interpolate()).to_disk(training / "model-last")
        else:
            config["training"]["optimizer"]["@optimizers"] = "papers.AdamW.v1"
            config["training"]["optimizer"]["norms"] = str(training / NORMS)
            train(init_nlp(config), training)
        nlp = load_pipeline(training / "model-last")
        if not reranks:
            _embed(linker_of(nlp), Path(places["kb"]), kb)
        with whole_folder(folder / "pipeline") as output:
            nlp.to_disk(output)
        return folder, kb


def _embed(linker: Any, kb: Path, own: Path) -> None:
    """Write the linker's vectors into a copy of a knowledge base."""
    if not own.exists():
        with whole_folder(own) as copy:
            shutil.copytree(kb, copy, dirs_exist_ok=True)
    embed_kb(own, linker)
    linker.set_kb(own)


def write_sample(source: Path, corpora: list[str], limit: int, others: int, output: Path) -> None:
    """Write those lines of a JSONL file whose entities corpora mention, and others drawn at random.

    ``limit`` documents of each corpus are read; 0: all. The same arguments write the same file.
    """
    documents = [d for path in corpora for d in open_corpus(path, limit=limit).documents()]
    golds = {id for document in documents for m in document.mentions for id in m.ids}
    lines = [line for _, line in numbered_lines(source) if line.strip()]
    entities = map(json.loads, lines)
    named = [not golds.isdisjoint((e["concept_id"], *e.get("alt_ids", ()))) for e in entities]
    rest = [number for number, is_named in enumerate(named) if not is_named]
    drawn = set(random.Random(0).sample(rest, min(others, len(rest))))
    with whole_file(output) as file:
        file.writelines(f"{line}\n" for n, line in enumerate(lines) if named[n] or n in drawn)


def _training_figures(norms: Path) -> dict[str, Any]:
    """Return mean and relative variance of the gradient norms (figure 3)."""
    if not norms.exists():
        return {}
    values = np.loadtxt(norms, ndmin=1)
    values = values[max(1, len(values) // 10) :]
    mean = float(values.mean())
    relative = float(np.var(values, ddof=1)) / mean**2 if len(values) > 1 else 0.0
    return {"norms": {"mean": round(mean, 3), "relative_variance": round(relative, 4)}}


def _commit() -> str | None:
    """Return the checked-out commit, with a "+" if files were changed; None without git."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    if not shutil.which("git"):
        return None
    return subprocess.run(command, capture_output=True, text=True, cwd=HERE).stdout.strip() or None


def main(
    tables: Annotated[list[str], typer.Argument(help="Names of files in papers/tables")],
    data: Annotated[str, typer.Option(help="Folder of corpora and knowledge bases")] = "",
    encoder: Annotated[str, typer.Option(help="Name or path of a BERT")] = "",
    seeds: Annotated[str, typer.Option(help="Seeds, separated by commas")] = "0,1,2",
    only: Annotated[str, typer.Option(help="Run variants whose names have this text")] = "",
    work: Path = Path("training/papers"),
    keep: Annotated[bool, typer.Option("--keep", help="Keep weights and vectors")] = False,
) -> None:
    """Run the experiments of TABLES. Each run adds a line to results.jsonl."""
    for seed in map(int, seeds.split(",")):
        for name in tables:
            runner = Runner(read_table(name), {"data": data, "encoder": encoder}, work)
            lines = srsly.read_jsonl(RESULTS)
            done = {(line["table"], line["variant"], line["seed"]) for line in lines}
            for variant in runner.variants.values():
                if only in variant.name and (name, variant.name, seed) not in done:
                    runner.prepare()
                    print(f"{name}: {variant.name}, seed {seed}", flush=True)
                    line = runner.run(variant, seed)
                    # Several programs may add lines at a time.
                    with FileLock(f"{RESULTS}.lock"), RESULTS.open("a", encoding="utf8") as file:
                        file.write(json.dumps(line) + "\n")
                    print(json.dumps(line["figures"])[:300], flush=True)
            if not keep:
                shutil.rmtree(work / name, ignore_errors=True)


if __name__ == "__main__":
    try:
        typer.run(main)
    except PelError as error:
        raise SystemExit(f"Error: {error}") from error
