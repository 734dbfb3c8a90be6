from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, build_kb
from spacy_pel.reading import proxies
from spacy_pel.reading.entity_texts import EntityText
from spacy_pel.reading.proxies import check_row_kind, encode_rows, proxy_texts

MS = Entity("C1", "Multiple sclerosis", ("MS", "Sclerosis"), ("Disease", "Finding"), "Of nerves.")


@pytest.mark.parametrize(
    ("entity", "expected"),
    [
        (MS, EntityText("Multiple sclerosis", "Disease, Finding", "MS; Sclerosis. Of nerves.")),
        (MS._replace(definition=None), EntityText(MS[1], "Disease, Finding", "MS; Sclerosis")),
        (MS._replace(aliases=(MS[1],)), EntityText(MS[1], "Disease, Finding", "Of nerves.")),
        (Entity("C2", "Aspirin"), EntityText("Aspirin", "", "")),
    ],
)
def test_one_row_an_entity(entity: Entity, expected: EntityText) -> None:
    assert proxy_texts(entity, "entity") == [expected]


def test_one_row_an_entity_without_its_aliases() -> None:
    """The text of the paper (PEL, appendix A): title, types and description."""
    expected = EntityText("Multiple sclerosis", "Disease, Finding", "Of nerves.")
    assert proxy_texts(MS, "title") == [expected]
    assert proxy_texts(MS._replace(definition=None), "title") == [expected._replace(description="")]


def test_one_row_a_name() -> None:
    types = "Disease, Finding"
    assert proxy_texts(MS, "name") == [
        EntityText("Multiple sclerosis", types, ""),
        EntityText("MS", types, "Multiple sclerosis"),
        EntityText("Sclerosis", types, "Multiple sclerosis"),
    ]
    repeated = MS._replace(aliases=("MS", "Multiple sclerosis", "MS"))
    assert [text.title for text in proxy_texts(repeated, "name")] == ["Multiple sclerosis", "MS"]
    assert proxy_texts(Entity("C2", "Aspirin"), "name") == [EntityText("Aspirin")]


def test_row_kinds() -> None:
    assert [check_row_kind(kind) for kind in ("entity", "name")] == ["entity", "name"]
    with pytest.raises(
        PelError, match='unknown row kind "alias"; choose one of entity, title, name'
    ):
        check_row_kind("alias")


@pytest.mark.parametrize("chunk", [1, 2, 2048])
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
