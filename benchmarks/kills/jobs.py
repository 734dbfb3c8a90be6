"""What is killed: an assembly, a linking, a training, a change of a KB."""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from processes import Process, Work
from spacy.language import Language
from spacy.util import load_config

from spacy_pel.errors import PelError
from spacy_pel.jobs import link
from spacy_pel.jobs.kb_rows import LinkerRows
from spacy_pel.jobs.link_docs import Linking
from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.change import update_entities
from spacy_pel.kb.verify import verify
from spacy_pel.packaging.assemble import PackageInfo, assemble
from spacy_pel.pipeline.pipelines import linker_of
from spacy_pel.training.train_pipeline import run_training, start_training

State = tuple[str, ...]
PROJECT = Path(__file__).parents[2] / "project"
DOCUMENTS = 48
TRAINING = {
    "paths.train": str(PROJECT / "assets/demo/corpus/train.pubtator"),
    "paths.dev": str(PROJECT / "assets/demo/corpus/dev.pubtator"),
    "corpora.train.limit": 8,
    "corpora.dev.limit": 2,
    "components.proxy_linker.model.encoder.layers": 1,
    "components.proxy_linker.model.encoder.width": 16,
    "components.proxy_linker.model.encoder.heads": 2,
    "components.proxy_linker.model.encoder.vocab_size": 500,
    "components.proxy_linker.negatives.refresh": 3,
    "initialize.components.proxy_linker.searched_entities": 30,
    "training.max_steps": 4,
    "training.eval_frequency": 2,
}
CHANGED = "Multiple Sclerosis"  # the entity that a writer changes under the server
TEXTS = (PROJECT / "assets/demo/texts.txt").read_text(encoding="utf8").splitlines()
SECONDS = 300  # the most that a run may take


class Job(NamedTuple):
    """What is killed.

    Attributes:
        begin: Makes the folder as it is before.
        work: What is done in the folder.
        go_on: What a user does after a kill.
        state: Digests of what the folder holds.
        between: Digests of what an unbroken run leaves for a while.
    """

    begin: Work
    work: Work
    go_on: Work
    state: Callable[[Path], State]
    between: frozenset[str] = frozenset()


def assembling(scratch: Path, nlp: Language, kb: Path) -> Job:
    """A pipeline that replaces one of an earlier version."""

    def work(folder: Path, version: str = "2.0.0") -> None:
        assemble(nlp, kb, folder / "pipeline", info=PackageInfo(version=version))

    first = partial(work, version="1.0.0")
    Process(first, scratch / "first").ended()
    return Job(
        begin=lambda folder: shutil.copytree(scratch / "first", folder, dirs_exist_ok=True),
        work=work,
        go_on=work,
        state=lambda folder: (digest(folder / "pipeline"),),
    )


def linking(scratch: Path, nlp: Language, kb: Path) -> Job:
    """Documents in parts of a few, linked to a file that is there already."""
    link.DOCUMENTS_PER_BLOCK = 6
    chance, source = random.Random(0), scratch / "documents.txt"
    lines = [f"Case {n}: {chance.choice(TEXTS)}\n" for n in range(DOCUMENTS)]
    source.write_text("".join(lines), encoding="utf8")

    def work(folder: Path) -> None:
        link.link_files(Linking(nlp), source, folder / "linked.jsonl")

    return Job(
        begin=lambda folder: (folder / "linked.jsonl").write_text("{}\n"),
        work=work,
        go_on=work,
        state=lambda folder: (digest(folder / "linked.jsonl"),),
    )


def training(scratch: Path, nlp: Language, kb: Path) -> Job:
    """A small training in the folder of an earlier one. What it saves at evaluations is in between."""
    noted = scratch / "noted"

    def train(folder: Path, seed: int = 0, note: bool = False, resume: bool = False) -> None:
        def show(line: dict[str, Any]) -> None:
            if note and "scores" in line:
                with open(noted, "a") as file:
                    file.write("\n".join([*state(folder), ""]))

        overrides = {**TRAINING, "paths.kb": str(kb), "system.seed": seed}
        config = load_config(PROJECT / "configs" / "demo.cfg", overrides, interpolate=False)
        run = start_training(config, folder, resume=resume)
        if run is not None:
            run_training(run, show)

    def go_on(folder: Path) -> None:
        try:
            train(folder, resume=True)
        except PelError:  # the checkpoint of the earlier training is still there
            train(folder)

    def state(folder: Path) -> State:
        return digest(folder / "model-best"), digest(folder / "model-last")

    Process(partial(train, seed=1), scratch / "first").ended()
    Process(partial(train, note=True), scratch / "unbroken").ended()
    return Job(
        begin=lambda folder: shutil.copytree(scratch / "first", folder, dirs_exist_ok=True),
        work=train,
        go_on=go_on,
        state=state,
        between=frozenset(noted.read_text().split()),
    )


def changing(scratch: Path, nlp: Language, kb: Path) -> Job:
    """A writer that changes an entity of a KB."""

    with KnowledgeBase.open(kb) as opened:
        (entity,) = opened.named(CHANGED)
    changed = entity._replace(canonical_name="Changed", aliases=("Another name",))

    def work(folder: Path) -> None:
        update_entities(folder, [changed], LinkerRows(linker_of(nlp)))

    return Job(
        begin=lambda folder: shutil.copytree(kb, folder, dirs_exist_ok=True),
        work=work,
        go_on=work,
        state=lambda folder: (KnowledgeBase.open(folder).settings["checksum"], str(verify(folder))),
    )


def digest(*paths: Path) -> str:
    """A digest of the names and contents of files, and of all files in folders."""
    digest = hashlib.sha256()
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(f"{file.relative_to(path.parent)} {file.stat().st_size} ".encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()
