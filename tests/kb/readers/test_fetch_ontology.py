import io
from email.message import Message
from pathlib import Path
from urllib.response import addinfourl

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb.readers import fetch_ontology as module
from spacy_pel.kb.readers.fetch_ontology import ONTOLOGIES, fetch_ontology

OBO = "data-version: 2026-01-05\n\n[Term]\nid: X:1\nname: gout\n\n[Term]\nid: X:2\nname: rash\n"


@pytest.mark.parametrize(
    "text, message",
    [
        (None, "cannot be fetched .*; check the network"),
        ("", "has no entities; run it again, or open it in a browser"),
        ("<html>Please log in.</html>", "has no entities"),
        ("[Term]\nid X:1\nname: gout\n", "line 3: cannot be parsed as OBO.*; run it again"),
    ],
)
def test_a_part_leaves_the_old_file(tmp_path: Path, monkeypatch, text, message: str) -> None:
    published = tmp_path / "mondo.obo"
    monkeypatch.setitem(ONTOLOGIES, "mondo", ("diseases", published.as_uri()))
    if text is not None:
        published.write_text(text)
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "mondo.obo").write_text("old")
    with pytest.raises(PelError, match=message):
        fetch_ontology("mondo", folder)
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("mondo.obo", "old")]


def test_an_answer_that_breaks_off(tmp_path: Path, monkeypatch) -> None:
    headers = Message()
    headers["Content-Length"] = "100"
    answer = addinfourl(io.BytesIO(OBO.encode()), headers, "", 200)
    monkeypatch.setattr(module, "urlopen", lambda *_, **__: answer)
    with pytest.raises(PelError, match=f"broke off after {len(OBO)} of 100 bytes"):
        fetch_ontology("mondo", tmp_path)


def test_no_such_name(tmp_path: Path) -> None:
    with pytest.raises(PelError, match="unknown ontology 'mundo'; choose one of: mondo, doid"):
        fetch_ontology("mundo", tmp_path)
