"""Test ``pel serve`` under load: many clients send valid and invalid requests, and check every answer.

    python benchmarks/serve_load.py PIPELINE project/assets/demo/texts.txt --seconds 180
    python benchmarks/serve_load.py PIPELINE project/assets/demo/texts.txt --idle 600 --flooding 4

Starts a server on a free port of this computer. Prints the number of answers, the number of wrong
ones and the times of each kind of request, and the server's memory minute by minute. Ends with 1 if
an answer was wrong.

Two hostile clients may be there as well. One holds idle and half-sent connections, and opens a new
one for each that the server closes. One sends requests of 1 MB in a loop. Each client has an address
of its own in 127.0.0.0/8, which needs Linux.
"""

import asyncio
import json
import random
import re
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import spacy
import typer
from wasabi import msg

JSON = {"content-type": "application/json"}
# Characters beyond 16 bits, which offsets must count as one each.
ASTRAL = "🧠 𝒳: "
# The addresses of the two hostile clients.
IDLER, FLOODER = "127.1.0.1", "127.2.0.1"
HALF_A_REQUEST = b"POST /link HTTP/1.1\r\nHost: local"


class Case(NamedTuple):
    """A request, the status that it should get, and what is wrong with an answer's JSON, or None."""

    kind: str
    method: str
    path: str
    body: bytes | None
    status: int
    fault: Callable[[Any], str | None]


def main(
    pipeline: str,
    texts: Path,
    clients: int = 20,
    seconds: int = 60,
    idle: int = 0,
    flooding: int = 0,
    workers: int = 1,
    seed: int = 0,
) -> None:
    """Send requests with TEXTS, one text a line, to a server of PIPELINE, and check the answers.

    IDLE and FLOODING are the numbers of connections of the two hostile clients. WORKERS is the number
    of processes of the server.
    """
    nlp = spacy.load(pipeline)
    lines = texts.read_text("utf8").splitlines()
    cases = good_cases(nlp, lines), wrong_cases()
    port = free_port()
    command = pel_serve(pipeline, port, "--workers", str(workers))
    with running_server(command, port) as address:
        hostile = [hold(address, number) for number in range(idle)]
        hostile += [flood(address, " ".join(lines)) for _ in range(flooding)]
        results, memory = asyncio.run(load(address, cases, clients, seconds, seed, hostile))
    faults = report(results, memory, seconds)
    raise typer.Exit(1 if faults else 0)


# Requests


def good_cases(nlp: spacy.Language, lines: list[str]) -> list[Case]:
    """Return requests with texts, batches and given mentions, and the pipeline's predictions."""
    texts = [line for line in lines if line.strip()]
    texts += [ASTRAL + text for text in texts[::3]]
    docs = {text: nlp(text) for text in texts}
    expected = {text: mentions_of(doc) for text, doc in docs.items()}
    linked = [text for text in texts if expected[text]]
    cases = [link_case("one text", [{"text": text}], [expected[text]]) for text in texts]
    for start in range(0, len(texts) - 4, 4):
        batch = texts[start : start + 4]
        documents = [{"text": text} for text in batch]
        cases.append(link_case("batch of 4", documents, [expected[t] for t in batch]))
    for text in linked:
        # With their labels, which a learnt ranking looks at.
        given = [
            {"start": e.start_char, "end": e.end_char, "label": e.label_} for e in docs[text].ents
        ]
        document = {"text": text, "mentions": given}
        cases.append(link_case("given mentions", [document], [expected[text]]))
    for id in sorted({mention[2] for text in linked for mention in expected[text]} - {"NIL"}):
        cases.append(get_case("entity", f"/entity/{id}", lambda a, id=id: unless(a["id"] == id)))
    cases.append(
        get_case("search", "/search?q=acid", lambda a: unless(isinstance(a["entities"], list)))
    )
    return cases


def mentions_of(doc: spacy.tokens.Doc) -> list[tuple[int, int, str, float]]:
    """Return (start, end, id, score) of each mention."""
    return [(e.start_char, e.end_char, e._.kb_id, e._.kb_score) for e in doc.ents]


def link_case(kind: str, documents: list[dict], expected: list[list[tuple]]) -> Case:
    def fault(answer: Any) -> str | None:
        if len(answer["documents"]) != len(expected):
            return "other documents"
        faults = map(other_than, (d["mentions"] for d in answer["documents"]), expected)
        return next(filter(None, faults), None)

    body = json.dumps({"documents": documents}).encode()
    return Case(kind, "POST", "/link", body, 200, fault)


def other_than(answered: list[dict], expected: list[tuple]) -> str | None:
    """Return how mentions differ from those of the pipeline: in offsets, ids, or scores.

    Between batches scores differ by up to 0.0003 where the encoder computes in bfloat16, and by a
    millionth in float32. Ids must be the same all the same.
    """
    if [(m["start"], m["end"]) for m in answered] != [mention[:2] for mention in expected]:
        return "other places"
    if [m["id"] for m in answered] != [mention[2] for mention in expected]:
        return "other ids"
    apart = [abs(m["score"] - mention[3]) for m, mention in zip(answered, expected)]
    return "other scores" if max(apart, default=0) >= 1e-3 else None


def unless(is_right: bool) -> str | None:
    return None if is_right else "wrong"


def get_case(kind: str, path: str, fault: Callable[[Any], str | None], status: int = 200) -> Case:
    return Case(kind, "GET", path, None, status, fault)


def wrong_cases() -> list[Case]:
    """Return requests that must be refused with a reason."""
    million = json.dumps({"documents": [{"text": "a " * 500_000}]}).encode()
    overlapping = [{"start": 0, "end": 4}, {"start": 2, "end": 6}]
    bodies = [
        ("empty", b"", 422),
        ("malformed", b'{"documents": [{"text": "MS"', 400),
        ("binary", random.Random(0).randbytes(100_000), 400),
        ("deep", b"[" * 100_000, 400),
        ("lone surrogate", b'{"documents": [{"text": "\\ud800"}]}', 400),
        ("a million characters", million, 422),
        ("3 million bytes", b" " * 3_000_000, 413),
        ("too many documents", json.dumps({"documents": [{"text": "MS"}] * 200}).encode(), 422),
        (
            "overlapping mentions",
            json.dumps({"documents": [{"text": "kidney", "mentions": overlapping}]}).encode(),
            422,
        ),
    ]
    cases = [Case(kind, "POST", "/link", body, status, no_reason) for kind, body, status in bodies]
    cases.append(get_case("unknown entity", "/entity/no%2Fsuch%00id", no_reason, 404))
    cases.append(get_case("empty search", "/search?q=", no_reason, 422))
    return cases


def no_reason(answer: Any) -> str | None:
    """Return what is wrong with a refusal: it must be one sentence without a path or a traceback."""
    detail = answer["detail"]
    unfit = re.search(r"Traceback|\.py|/\w+/|\n", detail)
    return unless(list(answer) == ["detail"] and not unfit)


# Clients


def pel_serve(pipeline: str, port: int, *options: str) -> list[str]:
    """Return the command that serves a pipeline."""
    command = [sys.executable, "-m", "spacy", "pel", "serve", pipeline, "--port", str(port)]
    return [*command, *options]


def free_port() -> int:
    """Return an unused port of this computer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def running_server(command: list[str], port: int) -> Iterator[str]:
    """Run a server during the block, and check that it ends without an error; gives its address."""
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        while True:
            try:
                httpx.get(f"{address}/health", timeout=600)
                break
            except httpx.TransportError:
                if server.poll() is not None:
                    sys.exit("the server has not started")
                time.sleep(0.2)
        yield address
    finally:
        server.terminate()
        code = server.wait(300)
    if code:
        sys.exit(f"the server ended with {code}")


async def load(
    address: str,
    cases: tuple[list[Case], list[Case]],
    clients: int,
    seconds: int,
    seed: int,
    hostile: list[Coroutine],
) -> tuple[dict, list[tuple[float, float]]]:
    """Send requests: (seconds, fault or None) by kind and status, and (seconds, MB) of memory."""
    results: dict[tuple[str, int], list] = defaultdict(list)
    memory: list[tuple[float, float]] = []
    attacks = [asyncio.create_task(attack) for attack in hostile]
    await asyncio.sleep(2 if attacks else 0)
    began = time.perf_counter()

    async def watch() -> None:
        async with client_at(address, "127.0.0.1") as client:
            while True:
                figures = (await client.get("/metrics")).text
                resident = re.search(r"^process_resident_memory_bytes (\S+)", figures, re.M)
                if resident:  # there is none in a refusal
                    memory.append((time.perf_counter() - began, float(resident[1]) / 2**20))
                await asyncio.sleep(1)

    async def send(number: int) -> None:
        choices = random.Random(seed + number)
        async with client_at(address, f"127.0.1.{number + 1}") as client:
            while time.perf_counter() - began < seconds:
                good, wrong = cases
                case = choices.choice(good if choices.random() < 0.8 else wrong)
                sent = time.perf_counter()
                fault = await fault_of(client, case)
                results[case.kind, case.status].append((time.perf_counter() - sent, fault))

    watching = asyncio.create_task(watch())
    await asyncio.gather(*map(send, range(clients)))
    for task in (watching, *attacks):
        task.cancel()
    return results, memory


def client_at(address: str, own: str) -> httpx.AsyncClient:
    """Return a client of the server with this local address."""
    transport = httpx.AsyncHTTPTransport(local_address=own)
    return httpx.AsyncClient(base_url=address, timeout=60, transport=transport)


async def hold(address: str, number: int) -> None:
    """Hold a connection: of every two one is idle, and one has half a request."""
    host, port = address.removeprefix("http://").split(":")
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(host, int(port), local_addr=(IDLER, 0))
            writer.write(HALF_A_REQUEST * (number % 2))
            await reader.read()
            writer.close()
        await asyncio.sleep(1)


async def flood(address: str, text: str) -> None:
    """Send the largest requests that are taken, one after the other."""
    long = (text * (16_000 // len(text) + 1))[:16_000]
    body = json.dumps({"documents": [{"text": long}] * 64}).encode()
    async with client_at(address, FLOODER) as client:
        while True:
            with suppress(httpx.TransportError):
                await client.post("/link", content=body, headers=JSON)


async def fault_of(client: httpx.AsyncClient, case: Case) -> str | None:
    """Send a request; what is wrong with its answer, or None."""
    try:
        answer = await client.request(case.method, case.path, content=case.body, headers=JSON)
    except httpx.TransportError as error:
        return repr(error)
    if answer.status_code != case.status:
        return f"{answer.status_code}: {answer.text[:200]}"
    fault = case.fault(answer.json())
    return fault and f"{fault}: {answer.text[:200]}"


def report(results: dict, memory: list[tuple[float, float]], seconds: int) -> int:
    """Print the tables; gives the number of wrong answers."""
    rows, faults, other_ids = [], [], 0
    for (kind, status), answers in sorted(results.items(), key=lambda item: (item[0][1], item[0])):
        times = 1000 * np.array([time for time, _ in answers])
        wrong = [f"{kind}: {fault}" for _, fault in answers if fault]
        faults += wrong
        other_ids += sum(fault.startswith("other ids") for _, fault in answers if fault)
        figures = [f"{f:,.0f}" for f in (*np.percentile(times, [50, 95, 99]), times.max())]
        rows.append((kind, status, f"{len(answers):,}", len(wrong), *figures))
    header = ("request", "status", "answers", "wrong", "p50, ms", "p95, ms", "p99, ms", "max, ms")
    msg.table(rows, header=header, divider=True, aligns=("l", *"r" * 7))
    total = sum(map(len, results.values()))
    print(f"{total:,} answers in {seconds} s, {total / seconds:,.0f} a second; {len(faults)} wrong")
    print(f"answers with other ids than those of the pipeline by itself: {other_ids}")
    right = [1000 * time for answers in results.values() for time, fault in answers if not fault]
    if right:
        p50, p95, p99 = np.percentile(right, [50, 95, 99])
        print(f"right answers: p50 {p50:,.0f} ms, p95 {p95:,.0f} ms, p99 {p99:,.0f} ms")
    for fault in faults[:10]:
        print(fault)
    marks = [10, *range(60, seconds, 60), seconds]
    for mark in marks:
        known = [(t, mb) for t, mb in memory if t <= mark <= seconds]
        if known:
            print(f"resident MB at {mark} s: {max(known)[1]:,.0f}")
    return len(faults)


if __name__ == "__main__":
    typer.run(main)
