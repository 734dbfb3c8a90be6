"""``pel serve`` and scispaCy's linker behind the same server: answers a second and times.

    python benchmarks/serve_peer.py PIPELINE CORPUS --scispacy PYTHON --kb KB.jsonl --index INDEX

PIPELINE is a package or folder with "ner". Both linkers come after that "ner", so that they link the same mentions.
KB.jsonl are the entities of the pipeline's KB in scispaCy's form, and INDEX is scispaCy's index of them, which
``benchmarks/speed/measure_scispacy.py index KB.jsonl INDEX`` writes. PYTHON has scispaCy and spacy_pel.

Each client sends one document of CORPUS, waits for the answer, and sends the next. The two servers run
one after the other. "Memory" is resident memory at the end.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import time
from pathlib import Path

import numpy as np
import spacy
import typer
from serve_load import client_at, free_port, pel_serve, running_server
from wasabi import msg

from spacy_pel.corpora.document_corpus import open_corpus

HERE = Path(__file__).parent


def main(
    pipeline: str,
    corpus: Path,
    scispacy: Path = typer.Option(...),
    kb: Path = typer.Option(...),
    index: Path = typer.Option(...),
    clients: list[int] = [1, 8, 64],
    documents: int = 200,
    seconds: int = 20,
) -> None:
    """Measure both servers with the first DOCUMENTS of CORPUS, for SECONDS with each number of CLIENTS."""
    os.environ["PYTHONPATH"] = str(HERE)
    texts = [d.text for d in itertools.islice(open_corpus(corpus).documents(), documents)]
    ner_of, port = str(spacy.load(pipeline).path), free_port()
    peer = [scispacy, HERE / "serve_scispacy.py", ner_of, kb, index, port]
    rows = []
    for name, command in (
        ("pel serve", pel_serve(pipeline, port)),
        ("scispaCy's linker", list(map(str, peer))),
    ):
        with running_server(command, port) as address:
            asyncio.run(measured(address, texts, 1, 3))  # a first use is slower
            for n in clients:
                figures = asyncio.run(measured(address, texts, n, seconds))
                rows.append((name, n, *(f"{figure:,.0f}" for figure in figures)))
                print(*rows[-1], flush=True)
    header = ("", "clients", "answers/s", "p50, ms", "p95, ms", "p99, ms", "memory, MB")
    msg.table(rows, header=header, divider=True, aligns=("l", *"r" * 6))


async def measured(
    address: str, texts: list[str], n_clients: int, seconds: float
) -> tuple[float, ...]:
    """Answers a second; percentiles 50, 95 and 99 of their times in ms; the server's MB."""
    times: list[float] = []
    began = time.perf_counter()

    async def send(number: int) -> None:
        mine = itertools.cycle(texts[number % len(texts) :] + texts[: number % len(texts)])
        async with client_at(address, f"127.0.1.{number + 1}") as client:
            while time.perf_counter() - began < seconds:
                sent = time.perf_counter()
                answer = await client.post("/link", json={"documents": [{"text": next(mine)}]})
                answer.raise_for_status()
                times.append(1000 * (time.perf_counter() - sent))

    await asyncio.gather(*map(send, range(n_clients)))
    passed = time.perf_counter() - began
    async with client_at(address, "127.0.0.1") as client:
        served = (await client.get("/metrics")).text
    memory = re.search(r"^process_resident_memory_bytes (\S+)", served, re.M)
    return len(times) / passed, *np.percentile(times, [50, 95, 99]), float(memory[1]) / 2**20


if __name__ == "__main__":
    typer.run(main)
