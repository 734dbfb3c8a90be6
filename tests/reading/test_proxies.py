from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.kb import Entity, build_kb
from spacy_pel.reading import proxies
from spacy_pel.reading.entity_texts import EntityText
from spacy_pel.reading.proxies import encode_rows, proxy_texts

MS = Entity("C1", "Multiple sclerosis", ("MS", "Sclerosis"), ("Disease", "Finding"), "Of nerves.")


def test_the_rows_of_an_entity() -> None:
    types, bare = "Disease, Finding", MS._replace(definition=None)
    whole = EntityText(MS[1], types, "MS; Sclerosis. Of nerves.")
    assert proxy_texts(MS, "entity") == [whole]
    assert proxy_texts(bare, "entity") == [whole._replace(description="MS; Sclerosis")]
    # The text of the paper (PEL, appendix A): title, types and description.
    assert proxy_texts(MS, "title") == [EntityText(MS[1], types, "Of nerves.")]
    names = [EntityText(MS[1], types), *(EntityText(n, types, MS[1]) for n in MS.aliases)]
    assert proxy_texts(MS, "name") == names
    described = [text.description for text in proxy_texts(MS, "described-name")]
    assert described == ["Of nerves.", *["Multiple sclerosis. Of nerves."] * 2]
    repeated = MS._replace(aliases=("MS", MS[1], "MS"))
    assert [text.title for text in proxy_texts(repeated, "name")] == [MS[1], "MS"]
    assert proxy_texts(Entity("C2", "Aspirin"), "name") == [EntityText("Aspirin")]


@pytest.mark.parametrize("chunk", [2, 2048])
@pytest.mark.parametrize("row_kind", ["entity", "name"])
def test_rows_are_encoded_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, row_kind: str
) -> None:
    monkeypatch.setattr(proxies, "CHUNK", chunk)
    names = [("a", "aa", "aaa"), ("b",), ("c", "cc")]
    entities = [Entity(n[0].upper(), n[0], n[1:]) for n in names]
    kb = build_kb(entities, tmp_path / "kb")
    encoded: list[EntityText] = []

    def encode(texts: Sequence[EntityText]) -> np.ndarray:
        first = len(encoded)
        encoded.extend(texts)
        return np.arange(first, len(encoded), dtype=np.float32)[:, None]

    numbers = [2, 0, 1]
    chunks = list(encode_rows(kb, numbers, row_kind, encode))
    vectors, owners = (np.concatenate(parts) for parts in zip(*chunks))
    expected = [(e, text) for e in numbers for text in proxy_texts(entities[e], row_kind)]
    assert owners.tolist() == [e for e, _ in expected]
    assert encoded == [text for _, text in expected]
    assert vectors[:, 0].tolist() == list(range(len(expected)))
    assert len(chunks) == -(-3 // chunk)
