"""Documents to link, and what the tests of ``pel link`` do with them."""

from __future__ import annotations

import json
from pathlib import Path

from spacy.tokens import Doc

from spacy_pel.pipeline.proxy_linker import ProxyLinker

TEXT = "Aspirin relieves headache. The patient has MS."
GIVEN = {"text": "An MS-like illness", "id": "d", "mentions": [{"start": 3, "end": 5}]}


def records(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf8").splitlines()]


def breaking_after(n: int, error: BaseException, monkeypatch) -> list[str]:
    """Makes the linker fail after so many documents; gives the texts that it links."""
    linked: list[str] = []

    def broken(linker: ProxyLinker, docs: list[Doc], predict=ProxyLinker.predict):
        if len(linked) == n:
            raise error
        linked.extend(doc.text for doc in docs)
        return predict(linker, docs)

    monkeypatch.setattr(ProxyLinker, "predict", broken)
    return linked


def failing_elsewhere(error: BaseException, monkeypatch) -> None:
    """Makes the linker fail at every document but TEXT."""

    def broken(linker: ProxyLinker, docs: list[Doc], predict=ProxyLinker.predict):
        if docs[0].text == TEXT:
            return predict(linker, docs)
        raise error

    monkeypatch.setattr(ProxyLinker, "predict", broken)
