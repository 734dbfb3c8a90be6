"""``assemble``, ``train``, ``link`` and ``serve`` killed at any moment: the old or the new?

    python benchmarks/kills.py SCRATCH PIPELINE [--kills 75] [--only link]

PIPELINE is the demo's, with its KB inside. Each job runs again and again in a process of its own,
which is killed: in half of the runs right before one of its operations on files, in the others after
a random time. What it writes must then be as it was before, or as an unbroken run leaves it. Then
the job runs again to its end, and must leave the same as an unbroken run, and nothing beside it.

For ``serve`` a writer that changes the KB is killed while a server opens it and answers from it. In
half of the runs the server is killed too, and another is started. The answers of a server must all
be those of the old KB, or all those of the new one. The benchmark ends with 1 if anything else is
met. SCRATCH may be deleted afterwards.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import typer
from spacy.language import Language
from spacy.util import load_config
from wasabi import msg

from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.folder.manifest import MANIFEST
from spacy_pel.kb.verify import verify
from spacy_pel.kb.writing.entity_changes import update_entities
from spacy_pel.pipeline.pipelines import linker_of, load_pipeline
from spacy_pel.serve.app import create_app
from spacy_pel.serve.limits import Limits
from spacy_pel.serve.server import listen, run_server
from spacy_pel.serve.service import LinkingService
from spacy_pel.tasks import link_files
from spacy_pel.tasks.assemble import PackageInfo, assemble
from spacy_pel.tasks.embedding.rows import LinkerRows
from spacy_pel.tasks.link_docs import Linking
from spacy_pel.tasks.train_pipeline import run_training, start_training

PROJECT = Path(__file__).parents[1] / "project"
DOCUMENTS = 48
TRAINING = {
    "paths.train": str(PROJECT / "assets/demo/corpus/train.pubtator"),
    "paths.dev": str(PROJECT / "assets/demo/corpus/dev.pubtator"),
    "corpora.train.limit": 20,
    "corpora.dev.limit": 3,
    "components.proxy_linker.model.encoder.layers": 1,
    "components.proxy_linker.model.encoder.width": 16,
    "components.proxy_linker.model.encoder.heads": 2,
    "components.proxy_linker.model.encoder.vocab_size": 500,
    "components.proxy_linker.negatives.refresh": 3,
    "initialize.components.proxy_linker.searched_entities": 30,
    "training.max_steps": 6,
    "training.eval_frequency": 2,
}
CHANGED = "Multiple Sclerosis"  # the entity that a writer changes under the server
TEXTS = (PROJECT / "assets/demo/texts.txt").read_text(encoding="utf8").splitlines()
SECONDS = 300  # the most that a run may take

Work = Callable[[Path], object]
State = tuple[str, ...]
GOOD = ("killed", "ended first", "old", "in between", "new")
OUTCOMES = (*GOOD, "neither", "other end", "left behind")


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


class Kill(NamedTuple):
    """When a process is killed: right before its n-th operation on files, or after some seconds."""

    operation: int = 0
    seconds: float = 300.0


class Run(NamedTuple):
    """A process that has ended: after how long, its operations on files, and whether it was killed."""

    seconds: float
    operations: int
    killed: bool


class Process:
    """A fork of this process that does some work in a folder, until it is killed."""

    def __init__(self, work: Work, folder: Path, kill: Kill = Kill()) -> None:
        reader, writer = os.pipe()
        self._pipe = reader
        self._started = time.perf_counter()
        self.id = os.fork()
        if self.id:
            os.close(writer)
            return
        try:
            os.close(reader)
            # Nothing handles this signal: it ends the process as SIGKILL does.
            signal.setitimer(signal.ITIMER_REAL, kill.seconds)
            done = counted_operations(folder, kill.operation)
            work(folder)
            os.write(writer, str(done["n"]).encode())
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)

    def ended(self) -> Run:
        """Waits for the end; an error in the work ends the benchmark."""
        with os.fdopen(self._pipe) as pipe:
            operations = int(pipe.read() or 0)
        status = os.waitpid(self.id, 0)[1]
        if status not in (0, signal.SIGKILL, signal.SIGALRM):
            sys.exit("a process failed")
        return Run(time.perf_counter() - self._started, operations, status != 0)


def main(scratch: Path, pipeline: Path, kills: int = 75, only: str = "", seed: int = 0) -> None:
    """Kill each job KILLS times, in folders in SCRATCH."""
    torch.set_num_threads(1)  # a fork has no other threads
    scratch = scratch.resolve()
    shutil.rmtree(scratch, ignore_errors=True)
    nlp = load_pipeline(pipeline)
    kb = linker_of(nlp).kb.path
    list(nlp.pipe(TEXTS[:2]))  # imports what is imported late
    jobs = {"assemble": assembling, "train": training, "link": linking, "serve": changing}
    rows = []
    for name in [only] if only else jobs:
        (scratch / name).mkdir(parents=True)
        job, chance = jobs[name](scratch / name, nlp, kb), random.Random(seed)
        often = partial(served_often, nlp) if name == "serve" else killed_often
        rows.append((name, *often(job, scratch / name / "work", kills, chance)))
    header = ("job", "seconds", "operations", *OUTCOMES)
    msg.table(rows, header=header, divider=True)
    raise typer.Exit(int(any(sum(row[3 + len(GOOD) :]) for row in rows)))


def killed_often(job: Job, folder: Path, kills: int, chance: random.Random) -> tuple:
    """Kill a job often.

    Returns:
        The seconds and operations of an unbroken run, and the count of each of ``OUTCOMES``.
    """
    old, new, whole = unbroken(job, folder)
    names, counts = names_in(folder), Counter()
    for number in range(kills):
        remade(folder, job.begin)
        run = Process(job.work, folder, random_kill(number, whole, chance)).ended()
        counts["killed" if run.killed else "ended first"] += 1
        counts[outcome(job.state(folder), old, new, job.between)] += 1
        Process(job.go_on, folder).ended()
        counts["other end"] += job.state(folder) != new
        counts["left behind"] += names_in(folder) != names
    return (f"{whole.seconds:.1f}", whole.operations, *(counts[name] for name in OUTCOMES))


def unbroken(job: Job, folder: Path) -> tuple[State, State, Run]:
    """The states before and after a run that is not killed, and the run."""
    remade(folder, job.begin)
    old = job.state(folder)
    run = Process(job.work, folder).ended()
    new = job.state(folder)
    assert old != new and not run.killed
    return old, new, run


def random_kill(number: int, whole: Run, chance: random.Random) -> Kill:
    """A kill at one of the operations of an unbroken run, or, if the number is odd, at a moment."""
    if number % 2:
        return Kill(seconds=chance.uniform(0.001, whole.seconds))
    return Kill(operation=chance.randint(1, whole.operations))


def outcome(state: State, old: State, new: State, between: frozenset[str] = frozenset()) -> str:
    """Which of ``OUTCOMES`` a state is."""
    if state in (old, new):
        return "old" if state == old else "new"
    return "in between" if {*state} <= {*old, *new, *between} else "neither"


def remade(folder: Path, begin: Work) -> None:
    """Make a folder as it is before the work."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    begin(folder)


def names_in(folder: Path) -> list[str]:
    """The names of all files in a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def counted_operations(folder: Path, last: int) -> dict[str, int]:
    """Count this process's operations on files in a folder from now on; before the last, kill it."""
    done = {"n": 0}
    kinds = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")

    def watch(event: str, arguments: tuple) -> None:
        if event == "ctypes.dlsym":
            counts = arguments[1] == "renameat2"  # which exchanges two names
        else:
            counts = event in kinds and is_inside(arguments[0])
        if counts:
            done["n"] += 1
            if done["n"] == last:
                os.kill(os.getpid(), signal.SIGKILL)

    def is_inside(path: object) -> bool:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return False
        name = os.fsdecode(path)
        return name.startswith(str(folder)) or not os.path.isabs(name)  # in a folder that is open

    sys.addaudithook(watch)
    return done


def digest(*paths: Path) -> str:
    """A digest of the names and contents of files, and of all files in folders."""
    digest = hashlib.sha256()
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(f"{file.relative_to(path.parent)} {file.stat().st_size} ".encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()


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
    link_files.DOCUMENTS_PER_PART = 6
    chance, source = random.Random(0), scratch / "documents.txt"
    lines = [f"Case {n}: {chance.choice(TEXTS)}\n" for n in range(DOCUMENTS)]
    source.write_text("".join(lines), encoding="utf8")

    def work(folder: Path) -> None:
        link_files.link_files(Linking(nlp), source, folder / "linked.jsonl")

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

    def work(folder: Path) -> None:
        with KnowledgeBase.open(folder) as opened:
            (entity,) = opened.named(CHANGED)
        changed = entity._replace(canonical_name="Changed", aliases=("Another name",))
        update_entities(folder, [changed], LinkerRows(linker_of(nlp)))

    return Job(
        begin=lambda folder: shutil.copytree(kb, folder, dirs_exist_ok=True),
        work=work,
        go_on=work,
        state=lambda folder: (digest(folder / MANIFEST), str(verify(folder))),
    )


def served_often(nlp: Language, job: Job, folder: Path, kills: int, chance: random.Random) -> tuple:
    """``killed_often`` while a server answers, which is killed as well in every other pair of runs.

    What the servers answer is counted with what the folder holds.
    """
    with listen("127.0.0.1", 0) as listener:
        old, new, whole = unbroken(job, folder)
        names, counts = names_in(folder), Counter()
        answers = {new: undisturbed(nlp, listener, folder)}
        remade(folder, job.begin)
        answers[old] = undisturbed(nlp, listener, folder)
        assert answers[old] != answers[new]
        for number in range(kills):
            remade(folder, job.begin)
            writer = Process(job.work, folder, random_kill(number, whole, chance))
            moment = chance.uniform(0, 4 * whole.seconds) if number % 4 > 1 else Kill().seconds
            server = Server(nlp, listener, folder, Kill(seconds=moment))
            said = [server.answers() for _ in range(3)]
            run = writer.ended()
            said.append(server.answers())
            server.stop()
            counts["killed" if run.killed else "ended first"] += 1
            one_kb = len({answer for answer in said if answer}) < 2
            known = all(answer in answers.values() for answer in said if answer) and one_kb
            counts[outcome(job.state(folder), old, new) if known else "neither"] += 1
            afterwards = undisturbed(nlp, listener, folder)
            counts["neither"] += afterwards != answers.get(job.state(folder))
            Process(job.go_on, folder).ended()
            counts["other end"] += job.state(folder) != new
            counts["left behind"] += names_in(folder) != names
    return (f"{whole.seconds:.1f}", whole.operations, *(counts[name] for name in OUTCOMES))


class Server:
    """``pel serve`` over the KB of a folder, in a process of its own, which may be killed."""

    def __init__(self, nlp: Language, listener: socket.socket, folder: Path, kill: Kill) -> None:
        def serve(folder: Path) -> None:
            linker_of(nlp, kb=folder)
            service = LinkingService(nlp, limits=Limits())
            run_server(create_app(service, local=True), listener, seconds=30)

        self._port = listener.getsockname()[1]
        self._process = Process(serve, folder, kill)

    def answers(self) -> State | None:
        """The entity and the links that the server gives; None if it was killed."""
        documents = {"documents": [{"text": text} for text in TEXTS[:3]]}
        with suppress(http.client.HTTPException, ConnectionError, TimeoutError):
            return self._answer("GET", f"/search?q={CHANGED.replace(' ', '+')}"), self._answer(
                "POST", "/link", json.dumps(documents)
            )
        return None

    def _answer(self, method: str, path: str, body: str | None = None) -> str:
        headers = {"Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        try:
            connection.request(method, path, body, headers)
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def stop(self) -> None:
        """Kill the server."""
        with suppress(ProcessLookupError):
            os.kill(self._process.id, signal.SIGKILL)
        self._process.ended()


def undisturbed(nlp: Language, listener: socket.socket, folder: Path) -> State | None:
    """What a server answers while nothing is killed."""
    server = Server(nlp, listener, folder, Kill())
    answers = server.answers()
    server.stop()
    return answers


if __name__ == "__main__":
    typer.run(main)
