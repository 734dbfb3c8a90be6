from pathlib import Path

import pytest
import spacy

from spacy_pel.errors import PelError


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1]", b"{}", b"[" * 100_000])
def test_a_damaged_reference_to_the_kb_is_named(tmp_path: Path, content: bytes) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("kb_matcher")
    nlp.to_disk(tmp_path)
    file = tmp_path / "kb_matcher" / "kb.json"
    file.write_bytes(content)
    with pytest.raises(PelError, match="is damaged") as caught:
        spacy.load(tmp_path)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("candidates", [-1, 0, 1_000_000_000])
def test_candidates_out_of_range_are_refused(candidates: int) -> None:
    with pytest.raises(PelError, match=f'"candidates" of "proxy_linker" is {candidates}'):
        spacy.blank("en").add_pipe("proxy_linker", config={"candidates": candidates})
