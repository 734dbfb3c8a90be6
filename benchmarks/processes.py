"""Measure how much faster several processes link than one, and the memory that they share.

    python benchmarks/processes.py PIPELINE CORPUS [--processes 2] [--batch-size 32] [--rounds 4]

Each round has other texts, which one process and then several link with ``nlp.pipe``. "Times as fast" is the
ratio of elapsed times, and needs idle cores. "Processor" is the processor time of one process divided by that
of several and their parent: 1 if processes cost nothing. "Parent" is the parent's share of it. Memory is Pss,
in which those who share a page share its size.
"""

import gc
import json
import multiprocessing
import os
import re
import resource
import time
from pathlib import Path
from typing import Any

import spacy
import torch
import typer
from spacy.language import Language

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.metrics.linking import markdown_table

HEADER = ["round", "times as fast", "processor", "parent", "MB of one", "of parent and workers"]


def main(
    pipeline: str,
    corpus: Path,
    processes: int = 2,
    batch_size: int = 32,
    runtime: str = "onnx-int8",
    rounds: int = 4,
) -> None:
    """Link the texts of CORPUS with one process and with several."""
    torch.set_num_threads(1)  # a fork would wait for the other threads for ever
    config = {"components": {"kb_ner": {"runtime": runtime}, "proxy_linker": {"runtime": runtime}}}
    nlp = spacy.load(pipeline, config=config)
    texts = [document.text for document in open_corpus(corpus).documents()]
    nlp(texts.pop())  # what it opens is shared
    gc.freeze()
    rows = []
    for number in range(rounds):
        part = texts[number::rounds]
        one = in_fork(nlp, part, 1, batch_size)
        several = in_fork(nlp, part, processes, batch_size)
        total = several["own"] + several["workers"]
        speed, work = one["elapsed"] / several["elapsed"], one["own"] / total
        row = f"{speed:.2f}", f"{work:.2f}", f"{several['own'] / total:.0%}"
        memory = f"{sum(one['memory']):.0f}", " + ".join(f"{mb:.0f}" for mb in several["memory"])
        rows.append([str(number + 1), *row, *memory])
    print(f"{processes} processes\n\n{markdown_table(HEADER, rows)}")


def in_fork(nlp: Language, texts: list[str], processes: int, batch_size: int) -> dict[str, Any]:
    """Link texts in a fork of this process, so that this one remembers nothing of them."""
    reader, writer = os.pipe()
    if not os.fork():
        elapsed, own = time.perf_counter(), time.process_time()
        memory = []
        for number, _ in enumerate(nlp.pipe(texts, n_process=processes, batch_size=batch_size), 1):
            if number == len(texts) // 2:
                workers = (child.pid for child in multiprocessing.active_children())
                memory = [pss(pid) for pid in (os.getpid(), *workers)]
        elapsed, own = time.perf_counter() - elapsed, time.process_time() - own
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = {"workers": children.ru_utime + children.ru_stime, "memory": memory}
        os.write(writer, json.dumps({"elapsed": elapsed, "own": own, **spent}).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        figures: dict[str, Any] = json.load(answer)
    os.wait()
    return figures


def pss(pid: int | None) -> float:
    """Return the MB of memory of a process, its share of shared memory included, from Linux."""
    memory = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+)", memory, re.M)[1]) / 1024


if __name__ == "__main__":
    typer.run(main)
