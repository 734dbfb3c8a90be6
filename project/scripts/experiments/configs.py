"""The config of a run: the config of its corpus with the settings of variant and corpus."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from spacy.util import load_config
from thinc.api import Config

from .corpora import Corpus
from .variants import Variant

LINKER = "components.proxy_linker"
# How thresholds and weights are fitted, in the words of the results.
FITTED = "on the other half of the documents"


class Choices(NamedTuple):
    """The user's choices; see the options of ``experiment.py run``."""

    data: str = ""
    encoder: str = ""
    limit: int = 0
    steps: int | None = None
    entities: int = 0

    def options(self) -> list[str]:
        """The options of ``experiment.py run`` that make these choices; DATA stands for the folder."""
        given = {"--encoder": self.encoder, "--limit": self.limit, "--steps": self.steps}
        given = {"--data": self.data and "DATA", **given, "--entities": self.entities}
        return [part for name, value in given.items() if value for part in (name, str(value))]

    def samples(self, corpus: Corpus) -> bool:
        """Whether the corpus' knowledge base is a sample."""
        return bool(self.entities and corpus.source)


class Run(NamedTuple):
    """One training of a variant with a seed, and its evaluation.

    Attributes:
        corpus: What it is trained on.
        variant: How it is trained.
        seed: The random seed.
        config: The whole config.
        kb: The knowledge base of training, without vectors.
        kbs: For each dev set, by its name, the knowledge base that it is linked to, without vectors.
        dev: For each dev set, by its name, its corpus.
        choices: The user's choices.
        digest: A digest of everything that decides the figures.
        folder: The folder of weights, checkpoints and the knowledge bases with vectors.
        retriever: For a reranker the run of its retriever; see also ``Variant.learnt``.
        rivals: For a reranker the runs of the retrievers whose candidates it also tells apart.
    """

    corpus: Corpus
    variant: Variant
    seed: int
    config: Config
    kb: Path
    kbs: dict[str, Path]
    dev: dict[str, str]
    choices: Choices
    digest: str
    folder: Path
    retriever: Run | None = None
    rivals: tuple[Run, ...] = ()

    @property
    def bases(self) -> tuple[Run, ...]:
        """The runs of retrievers that it needs."""
        return (*([self.retriever] if self.retriever else []), *self.rivals)

    @property
    def name(self) -> str:
        words = "".join(c if c.isalnum() else " " for c in self.variant.name.lower()).split()
        return f"{self.corpus.name}-{'-'.join(words)}-seed{self.seed}-{self.digest[:8]}"

    @property
    def pipeline(self) -> Path:
        """The folder of the trained pipeline."""
        of = self.retriever if self.retriever and self.variant.learnt else self
        return of.folder / "pipeline"

    def own(self, kb: Path) -> Path:
        """The folder of a knowledge base with the vectors of the run's retriever."""
        of = self if self.variant.learnt else self.retriever or self
        return of.folder / "kbs" / kb.name


def make_run(corpus: Corpus, variant: Variant, seed: int, choices: Choices, work: Path) -> Run:
    """Make the run of a variant.

    Its digest covers everything that decides the figures, and not where data and results lie on
    this machine.

    Args:
        corpus: What it is trained on.
        variant: How it is trained.
        seed: The random seed.
        choices: The user's choices.
        work: The folder of weights and vectors.
    """
    if not variant.trained and corpus.needs("encoder"):
        seed = 0  # Its encoder is the same with every seed.
    base = make_run(corpus, variant.retriever, seed, choices, work) if variant.retriever else None
    if base and variant.learnt:
        digest = _digest([base.digest, variant.learnt])
        run = base._replace(variant=variant, digest=digest, retriever=base)
        return run._replace(folder=work / run.name)
    rivals = tuple(make_run(corpus, each, seed, choices, work) for each in variant.rivals)
    file = corpus.reranker if base else corpus.config
    own = _of_paths(corpus.settings, file) if base else corpus.settings
    settings = {**variant.settings, **own, ".system.seed": seed}
    if choices.limit and not corpus.is_mined:
        settings[".corpora.train.limit"] = choices.limit
    steps = choices.steps or (corpus.rerank_steps if base else corpus.steps)
    refresh = corpus.refresh if "negatives.p" in variant.settings and not base else None
    if refresh:
        settings["negatives.refresh"] = refresh
    encoder = choices.encoder if corpus.needs("encoder") else None
    every = corpus.evaluated_every
    parts = [_config(file, filled(settings, {}), steps, every).to_str(), corpus.dev, corpus.prepare]
    parts += [choices.limit, encoder, variant.names, base and base.digest]
    parts += [choices.entities] * choices.samples(corpus)
    parts += ["untrained"] * (not variant.trained)
    parts += [FITTED] * (not corpus.kbs)
    parts += ["jointly"] * corpus.jointly
    parts += [rival.digest for rival in rivals]
    digest = _digest(parts)
    places = places_of(corpus, choices, work)
    config = _config(file, filled(settings, places), steps, every)
    kb = Path(filled(corpus.kb, places))
    kbs = {name: Path(filled(corpus.kbs.get(name, corpus.kb), places)) for name in corpus.dev}
    dev = filled(corpus.dev, places)
    run = Run(corpus, variant, seed, config, kb, kbs, dev, choices, digest, work, base, rivals)
    run = run._replace(folder=work / run.name)
    if base:
        _set(config, ".paths.retriever", str(base.pipeline))
    _set(config, "kb", str(run.own(kb) if base else kb))
    # The figures are those of the scores. It is so in every run: the digest need not say it.
    _set(config, "sole_owners_first", False)
    return run


def _of_paths(settings: dict[str, Any], file: str) -> dict[str, Any]:
    """The settings that set a path of a config file."""
    paths = {f".paths.{name}" for name in load_config(file, interpolate=False)["paths"]}
    return {name: value for name, value in settings.items() if name in paths}


def places_of(corpus: Corpus, choices: Choices, work: Path) -> dict[str, Any]:
    """Give what each of the {places} stands for; see ``Corpus``."""
    folder = str(work / corpus.name)
    if choices.samples(corpus):
        folder += f"-{choices.entities}"
    places = {"data": choices.data, "encoder": choices.encoder, "work": folder}
    source = f"{folder}/sample.jsonl" if choices.samples(corpus) else filled(corpus.source, places)
    train = filled(list(corpus.train), places)
    mined = [f"{folder}/mined.parquet"]
    places |= {"train": train, "mined": mined, "mined_and_train": [*mined, *train]}
    return {**places, "source": source, "label_types": corpus.label_types}


def _config(file: str, settings: dict[str, Any], steps: int | None, every: int | None) -> Config:
    """The config of a file with the settings laid over it; every: see ``_set_steps``."""
    config = load_config(file, interpolate=False)
    for name, value in settings.items():
        _set(config, name, value)
    if steps:
        _set_steps(config, steps, every)
    return config


def filled(value: Any, places: dict[str, Any]) -> Any:
    """Copy a value and replace its {places}, also within dicts and sequences."""
    if isinstance(value, dict):
        return {key: filled(each, places) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [filled(each, places) for each in value]
    if not isinstance(value, str):
        return value
    for name, meant in places.items():
        if value == f"{{{name}}}":
            return meant
        value = value.replace(f"{{{name}}}", str(meant))
    return value


def _set(config: Config, name: str, value: Any) -> None:
    """Set a value by its dotted name; without a dot in front the name is one of the linker's."""
    *path, last = name[1:].split(".") if name.startswith(".") else f"{LINKER}.{name}".split(".")
    for part in path:
        config = config[part]
    config[last] = value


def _set_steps(config: Config, steps: int, every: int | None) -> None:
    """Set the number of steps. The warm-up keeps its share of them.

    Evaluations are at step 0, at every ``every``th step and at the end; None: without those between.
    """
    training = config["training"]
    schedule = training["optimizer"]["learn_rate"]
    warmup = schedule["warmup_steps"] / schedule["total_steps"]
    schedule.update(total_steps=steps, warmup_steps=round(warmup * steps))
    epochs = min(0, training["max_epochs"])  # -1: examples are not held in memory
    training.update(max_steps=steps, max_epochs=epochs, eval_frequency=min(every or steps, steps))


def _digest(parts: list) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
