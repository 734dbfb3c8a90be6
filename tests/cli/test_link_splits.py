"""A split of a published corpus is linked as a file is, and what is written is a corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacy_pel.corpora.document_corpus import open_corpus

from ..corpora.layouts import write_medmentions, write_zeshel
from .link_examples import records


@pytest.mark.parametrize("write, split", [(write_zeshel, "test"), (write_medmentions, "train")])
def test_a_split_is_linked(run, tiny_folder: Path, tmp_path: Path, out: Path, write, split) -> None:
    folder = write(tmp_path / "corpus")
    name = f"{folder if write is write_zeshel else folder / 'st21pv'}:{split}"
    gold = list(open_corpus(name).documents())
    run("link", tiny_folder, name, "-o", out)
    written = records(out)
    assert [(record["id"], record["text"]) for record in written] == [(d.id, d.text) for d in gold]
    assert [[(m["start"], m["end"]) for m in record["mentions"]] for record in written] == [
        sorted((m.start, m.end) for m in document.mentions) for document in gold
    ]
    again = [mention.ids for d in open_corpus(out).documents() for mention in d.mentions]
    assert again == [
        () if m["id"] in ("", "NIL") else (m["id"],) for r in written for m in r["mentions"]
    ]
    folder_alone = name.removesuffix(f":{split}")
    assert "has several splits; write" in run("link", tiny_folder, folder_alone, "-o", out, code=1)
