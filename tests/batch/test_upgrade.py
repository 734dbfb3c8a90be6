import json
from pathlib import Path

import pytest

from spacy_pel.batch.embed import embed_kb
from spacy_pel.batch.upgrade import upgrade_kb
from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.knowledge_base import verify

from ..conftest import ENTITIES, write_text
from .conftest import files
from .test_embed import assert_rows_of

FIRST, *OTHERS = ENTITIES


@pytest.fixture
def release(tmp_path: Path) -> Path:
    renamed = FIRST._replace(canonical_name="A new name", aliases=FIRST.names)
    new = renamed._replace(concept_id="D99", canonical_name="A new disease", aliases=(), alt_ids=())
    lines = (json.dumps(entity._asdict()) + "\n" for entity in (renamed, *OTHERS, new))
    return write_text(tmp_path / "release.jsonl", "".join(lines))


def test_only_new_names_are_encoded(tiny_nlp, bare_kb, release, encoded) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    embed_kb(bare_kb.path, linker)
    encoded.clear()
    before = files(bare_kb.path)
    seen = upgrade_kb(bare_kb.path, [release], compare_only=True)
    assert [entity.concept_id for entity in seen.added] == ["D99"]
    assert seen.renamed == [(FIRST.concept_id, FIRST.canonical_name, "A new name")]
    assert files(bare_kb.path) == before and not encoded
    with pytest.raises(PelError, match="has vectors.*--pipeline PIPELINE"):
        upgrade_kb(bare_kb.path, [release])
    assert upgrade_kb(bare_kb.path, [release], nlp=tiny_nlp).added == seen.added
    assert sorted(encoded) == sorted(["A new name", *FIRST.names, "A new disease"])
    assert not verify(bare_kb.path)
    kb = KnowledgeBase.open(bare_kb.path)
    assert_rows_of(kb, list(kb.by_id()), linker)
    assert kb.vectors.added is None
    assert kb.settings["sources"][-1] == str(release)


def test_an_interrupted_upgrade_changes_nothing(tiny_nlp, bare_kb, release, monkeypatch) -> None:
    embed_kb(bare_kb.path, tiny_nlp.get_pipe("proxy_linker"))
    before = files(bare_kb.path)
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr("spacy_pel.kb.change.insert_rows", lambda *_: 1 / 0)
        upgrade_kb(bare_kb.path, [release], nlp=tiny_nlp)
    after = files(bare_kb.path)
    assert after.pop("checksums.json", b"") == b"" and before.pop("checksums.json")
    assert after == before
    release.write_text(release.read_text()[:-40])
    with pytest.raises(PelError, match="release.jsonl, line "):
        upgrade_kb(bare_kb.path, [release], nlp=tiny_nlp)
    assert files(bare_kb.path) == before
