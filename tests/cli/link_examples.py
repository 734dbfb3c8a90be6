"""Documents to link, and what the tests of ``pel link`` do with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from spacy.tokens import Doc

from spacy_pel.pipeline.proxy_linker import ProxyLinker

TEXT = "Aspirin relieves headache. The patient has MS."
GIVEN = {"text": "An MS-like illness", "id": "d", "mentions": [{"start": 3, "end": 5}]}


def records(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf8").splitlines()]


def _failing(fault: Callable[[list[Doc]], BaseException | None], monkeypatch) -> None:
    """Makes the linker fail at docs as this says."""

    def broken(linker: ProxyLinker, docs: list[Doc], predict=ProxyLinker.predict):
        if error := fault(docs):
            raise error
        return predict(linker, docs)

    monkeypatch.setattr(ProxyLinker, "predict", broken)


def breaking_after(n: int, error: BaseException, monkeypatch) -> list[str]:
    """Makes the linker fail after so many documents; gives the texts that it links."""
    linked: list[str] = []

    def fault(docs: list[Doc]) -> BaseException | None:
        if len(linked) == n:
            return error
        linked.extend(doc.text for doc in docs)

    _failing(fault, monkeypatch)
    return linked


def failing_elsewhere(error: BaseException, monkeypatch) -> None:
    """Makes the linker fail at every document but TEXT."""
    _failing(lambda docs: None if docs[0].text == TEXT else error, monkeypatch)


def failing_at(beginning: str, monkeypatch) -> None:
    """Makes the linker fail at documents that begin so."""
    error = RuntimeError("odd\nsize")
    _failing(
        lambda docs: error if any(d.text.startswith(beginning) for d in docs) else None, monkeypatch
    )
