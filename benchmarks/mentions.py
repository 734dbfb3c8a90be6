"""``pel mentions`` over many sentences for millions of names: speed, memory, kills.

    python benchmarks/mentions.py OUT --names 3000000 --sentences 3000000 --kills 3

Writes to the folder OUT, whose contents are replaced: a knowledge base of synthetic names, three an
entity, and sentences, one in three of which has one of the names. Searches them once without a
break, and once killed (SIGKILL) and resumed. Compares the two outputs byte for byte, and ends with 1
if they differ. With --automaton it also says what an automaton of ahocorasick_rs takes for the same
names.
"""

from __future__ import annotations

import filecmp
import itertools
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import typer
from wasabi import msg

from spacy_pel.kb import Entity, KnowledgeBase, build_kb

SYLLABLES = [a + b for a in "bcdfghklmnprstvz" for b in "a e i o u an or yl in".split()]
NAMES_AN_ENTITY = 3
COMMON_WORDS = 100_000


def main(
    out: Path,
    names: int = 3_000_000,
    sentences: int = 3_000_000,
    n_process: int = 1,
    kills: int = 3,
    seed: int = 0,
    automaton: bool = False,
) -> None:
    """Search SENTENCES for NAMES in the folder OUT, unbroken and with KILLS."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    choices = random.Random(seed)
    words = ["".join(choices.choices(SYLLABLES, k=choices.randint(2, 4))) for _ in range(200_000)]
    write_kb(out / "kb", words, names, choices)
    write_sentences(out / "text.txt", out / "kb", words, sentences, choices)
    run = [sys.executable, "-m", "spacy", "pel", "mentions"]
    command = [*run, out / "kb", out / "text.txt", "--n-process", str(n_process)]
    whole, broken = out / "unbroken.parquet", out / "killed.parquet"
    start = time.perf_counter()
    subprocess.run([*command, whole], check=True, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    msg.info(
        f"{sentences:,} sentences, {names:,} names, {n_process} processes: {seconds:.0f} s in all, "
        f"{sentences / seconds:,.0f} sentences/s; {cpu:.0f} s of CPU time, {sentences / cpu:,.0f} "
        f"sentences a second of it; at most {peak:,.0f} MB a process"
    )
    for _ in range(kills):  # together they take less than one run
        killed_after(choices.uniform(0.2, 0.95) * seconds / kills, [*command, broken])
    subprocess.run([*command, broken], check=True, stderr=subprocess.DEVNULL)
    if not filecmp.cmp(whole, broken, shallow=False):
        msg.fail("the outputs differ", exits=1)
    if automaton:
        run_automaton(out / "kb")
    msg.good(f"the same bytes after {kills} kills: {whole.stat().st_size:,}")


def killed_after(seconds: float, command: list) -> None:
    """Run a command and kill it, without a warning, after this time."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    parts = list(Path(f"{command[-1]}.parts").glob("*.json"))
    msg.info(f"killed after {seconds:.0f} s, {max(len(parts) - 1, 0)} parts were finished")


def write_kb(path: Path, words: list[str], n_names: int, choices: random.Random) -> None:
    """A KB of entities with three names each, of one to five words."""

    def name() -> str:
        return " ".join(
            choices.choices(words, k=choices.choice((1, 2, 2, 3, 3, 4, 5)))
        ).capitalize()

    start = time.perf_counter()
    count = n_names // NAMES_AN_ENTITY
    entities = (Entity(f"C{n:07d}", name(), (name(), name())) for n in range(count))
    build_kb(entities, path).close()
    msg.info(f"KB of {count:,} entities built in {time.perf_counter() - start:.0f} s")


def write_sentences(path: Path, kb: Path, words: list[str], n: int, choices: random.Random) -> None:
    """Sentences of 20 to 36 words, with names of 50,000 entities."""
    with KnowledgeBase.open(kb) as opened:
        names = [name for entity in itertools.islice(opened, 50_000) for name in entity.names]
    with open(path, "w", encoding="utf8") as file:
        file.writelines(_sentences(words, names, n, choices))


def _sentences(words: list[str], names: list[str], n: int, choices: random.Random) -> Iterator[str]:
    common = words[:COMMON_WORDS]
    for _ in range(n):
        sentence = choices.choices(common, k=choices.randint(20, 36))
        if choices.random() < 1 / 3:
            sentence[choices.randrange(20)] = choices.choice(names).lower()
        yield " ".join(sentence).capitalize() + " .\n"


def run_automaton(kb: Path) -> None:
    """Say what an automaton of the names takes, in a process of its own."""
    script = """
import resource, sys, time
from ahocorasick_rs import AhoCorasick, MatchKind
from spacy_pel.kb import KnowledgeBase
start = time.perf_counter()
names = (name for entity in KnowledgeBase.open(sys.argv[1]) for name in entity.names)
marked = ("".join(f"\\0{word}\\1" for word in name.lower().split()) for name in names)
AhoCorasick(marked, matchkind=MatchKind.LeftmostLongest, store_patterns=False)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"an automaton: built in {time.perf_counter() - start:.0f} s, peak {peak:,.0f} MB")
"""
    subprocess.run([sys.executable, "-c", script, kb], check=True, env=os.environ)


if __name__ == "__main__":
    typer.run(main)
