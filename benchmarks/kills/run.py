"""``assemble``, ``train``, ``link`` and ``serve`` killed at any moment: the old or the new?

    python benchmarks/kills/run.py SCRATCH PIPELINE [--kills 75] [--only link]

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

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

import torch
import typer
from jobs import TEXTS, Job, State, assembling, changing, linking, training
from processes import Kill, Process, Run, Work
from server import Server, undisturbed
from spacy.language import Language
from tqdm import tqdm
from wasabi import msg

from spacy_pel.pipeline.pipelines import linker_of, load_pipeline

GOOD = ("killed", "ended first", "old", "in between", "new")
OUTCOMES = (*GOOD, "neither", "failed", "other end", "left behind")


def main(scratch: Path, pipeline: Path, kills: int = 75, only: str = "", seed: int = 0) -> None:
    """Kill each job KILLS times, in folders in SCRATCH."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
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
    for number in until_killed(counts, kills):
        remade(folder, job.begin)
        run = Process(job.work, folder, random_kill(number, whole, chance)).ended()
        counts["killed" if run.killed else "ended first"] += 1
        counts[outcome(job.state(folder), old, new, job.between)] += 1
        counts["failed"] += Process(job.go_on, folder).ended().failed
        counts["other end"] += job.state(folder) != new
        counts["left behind"] += names_in(folder) != names
    return (f"{whole.seconds:.1f}", whole.operations, *(counts[name] for name in OUTCOMES))


def until_killed(counts: Counter[str], kills: int) -> Iterator[int]:
    """Numbers of runs, until enough of them were killed; shows the counts so far."""
    with tqdm(total=kills) as bar:
        for number in count():
            bar.update(counts["killed"] - bar.n)
            bar.set_postfix(counts)
            if bar.n == kills:
                return
            yield number


def unbroken(job: Job, folder: Path) -> tuple[State, State, Run]:
    """The states before and after a run that is not killed, and the run."""
    remade(folder, job.begin)
    old = job.state(folder)
    run = Process(job.work, folder).ended()
    new = job.state(folder)
    assert old != new and run.operations
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


def served_often(nlp: Language, job: Job, folder: Path, kills: int, chance: random.Random) -> tuple:
    """``killed_often`` while a server answers, which is killed as well in half of the runs.

    A server's answers must be those of one state of the folder. Answers of others are "neither".
    """
    old, new, whole = unbroken(job, folder)
    names, counts = names_in(folder), Counter()
    answers = {new: undisturbed(nlp, folder)}
    remade(folder, job.begin)
    answers[old] = undisturbed(nlp, folder)
    assert answers[old] != answers[new]
    for number in until_killed(counts, kills):
        remade(folder, job.begin)
        until = chance.uniform(0, 4 * whole.seconds) if number % 4 > 1 else Kill().seconds
        writer = Process(job.work, folder, random_kill(number, whole, chance))
        server = Server(nlp, folder, Kill(seconds=until))
        said = [server.answers() for _ in range(3)]
        run = writer.ended()
        said.append(server.answers())
        server.stop()
        state, heard = job.state(folder), {answer for answer in said if answer is not None}
        counts["killed" if run.killed else "ended first"] += 1
        agree = len(heard) < 2 and heard <= {*answers.values()}
        counts[outcome(state, old, new) if agree else "neither"] += 1
        counts["neither"] += undisturbed(nlp, folder) != answers.get(state)
        counts["failed"] += Process(job.go_on, folder).ended().failed
        counts["other end"] += job.state(folder) != new
        counts["left behind"] += names_in(folder) != names
    return (f"{whole.seconds:.1f}", whole.operations, *(counts[name] for name in OUTCOMES))


if __name__ == "__main__":
    typer.run(main)
