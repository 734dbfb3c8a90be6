import io
import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_pel.batch import link_files as module
from spacy_pel.batch.document_blocks import LinkedCounts
from spacy_pel.batch.link_docs import Linking, link_documents
from spacy_pel.batch.link_files import link_files, linking_settings
from spacy_pel.errors import PelError
from spacy_pel.models.architectures import encoder_of

from ..cli.conftest import breaking_after
from ..conftest import records, write_text
from .conftest import TEXTS, Told, files, link_to_folder, make_joint

BLOCKS = ["a.jsonl-00000001", "a.jsonl-00000003", "a.jsonl-00000005", "b.jsonl-00000001"]


def test_a_file_a_stream_and_blocks_hold_what_docs_give(tiny_nlp, notes: Path, out: Path) -> None:
    told, note, folder = Told(), notes / "a.jsonl", out.with_name("blocks.jsonl")
    linking = Linking(tiny_nlp, batch_size=1)
    assert link_files(linking, note, out, progress=told) == LinkedCounts(5, 5)
    docs = link_documents(tiny_nlp, map(tiny_nlp.make_doc, TEXTS), batch_size=1)
    assert [r["mentions"] for r in records(out)] == [r["mentions"] for r in docs]
    assert told.total == note.stat().st_size == sum(told.updates)
    stream = io.BytesIO()
    link_files(linking, str(note), stream)
    assert stream.getvalue() == out.read_bytes()
    told = Told()
    assert link_to_folder(linking, note, folder, progress=told) == LinkedCounts(5, 5)
    assert list(files(folder)) == BLOCKS[:3]
    assert b"".join(files(folder).values()) == out.read_bytes()
    assert sum(told.updates) == note.stat().st_size
    tables = out.with_name("tables")  # each block is one
    link_to_folder(linking, notes, tables, output_format="csv")
    assert {len(rows.splitlines()) for rows in files(tables).values()} == {2, 3}


def test_mentions_that_are_left_out_are_counted_and_shown(linking, tmp_path, out, caplog) -> None:
    lines = (f"{n}|t|MS hurts\n{n}\t0\t2\tMS\tD\t-\n{n}\t3\t5\tRA\tD\t-\n" for n in range(5))
    (tmp_path / "a.pubtator").write_text("\n".join(lines))
    counts = link_to_folder(linking, tmp_path / "a.pubtator", out, output_format="jsonl")
    assert (counts[:3], counts.n_left_out) == ((5, 5, ()), 5)
    (said,) = caplog.messages
    assert said.startswith("Left out 5 mentions") and said.count("a.pubtator, line") == 3
    assert "line 3: the mention reads 'RA' but the document has 'hu' at 3-5" in said
    assert link_to_folder(linking, tmp_path / "a.pubtator", out, output_format="jsonl") == counts


def test_what_stands_there_is_left_out_unless_it_has_changed(linking, notes, out, monkeypatch):
    link_to_folder(linking, notes, out)
    whole = files(out)
    # A kill right before the entry is written, and one right before the file is.
    (out / ".pel" / f"{BLOCKS[1]}.json").unlink()
    (out / f"{BLOCKS[3]}.jsonl").unlink()
    told, linked = Told(), breaking_after(-1, KeyboardInterrupt(), monkeypatch)
    assert link_to_folder(linking, notes, out, progress=told).documents == 6
    assert linked == [*TEXTS[2:4], "The patient has MS."]
    assert files(out) == whole
    assert sum(told.updates) == told.total

    linked.clear()
    (notes / "c.jsonl").write_text('{"text": "MS again.", "id": "c0"}\n')
    assert link_to_folder(linking, notes, out).documents == 7
    assert linked == ["MS again."]
    (notes / "b.jsonl").unlink()
    lines = (notes / "a.jsonl").read_text().splitlines()
    (notes / "a.jsonl").write_text("\n".join(lines[1:]) + "\n")
    assert link_to_folder(linking, notes, out).documents == 5
    lines = b"".join(files(out).values()).splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["a1", "a2", "a3", "a4", "c0"]
    assert list(files(out)) == [*BLOCKS[:2], "c.jsonl-00000001"]
    with pytest.raises(PelError, match="was made with another number of candidates; give a new"):
        link_to_folder(replace(linking, candidates=2), notes, out)


def test_what_cannot_be_written(linking: Linking, notes: Path, out: Path) -> None:
    before, note = files(notes), notes / "a.jsonl"
    joint = replace(linking, jointly=True)
    make_joint(joint.nlp)
    (out / "mine").mkdir(parents=True)
    jsonl, folder = {"output_format": "jsonl"}, link_to_folder
    for link, how, source, target, more, message in (
        (link_files, linking, note, note.with_name("x.pdf"), {}, "unknown output format; end the"),
        (link_files, linking, note, io.BytesIO(), {"output_format": "parquet"}, "to stdout"),
        (link_files, linking, notes, notes, jsonl, "is the input, or a folder"),
        (folder, linking, notes, notes, jsonl, "is the input, or a folder"),
        (folder, linking, "-", out, {}, "output for stdin is one file; name a file with"),
        (folder, joint, notes, out, {}, "output of joint linking is one file; name a file with"),
        (link_files, joint, note, io.BytesIO(), {}, "name a file with --output"),
        (folder, linking, notes, out, {}, "holds other files"),
        (folder, linking, notes, out, {"engine": "spark"}, 'engine "spark"; choose one of local'),
    ):
        with pytest.raises(PelError, match=message):
            link(how, source, target, **more)
    assert files(notes) == before and [path.name for path in out.iterdir()] == ["mine"]


def test_a_node_has_the_same_pipeline_on_its_device(linking: Linking, tmp_path: Path) -> None:
    settings = {**linking_settings(linking), "format": "jsonl"}
    node = pickle.loads(pickle.dumps(linking))
    assert "nlp" in vars(linking) and "nlp" not in vars(node)
    versions = {**settings["set of versions"], "torch": "0.1"}
    other = {**settings, "set of versions": versions}
    with pytest.raises(PelError, match="has another set of versions; install the same on all"):
        module._node_worker(node, other, tmp_path, "cpu")
    module._node_worker(node, settings, tmp_path, "meta")  # a device that every computer has
    (tower,) = node.linker.towers
    assert {weight.device.type for weight in encoder_of(tower).parameters()} == {"meta"}


@Language.component("denied")
def denied(doc: Doc) -> Doc:
    """Behind the linker: says of each mention whether "no" stands before it."""
    if not Span.has_extension("denied"):
        Span.set_extension("denied", default=False)
    for span in doc.ents:
        span._.denied = span.start > 0 and doc[span.start - 1].lower_ == "no"
    return doc


def test_attributes_of_other_components(tiny_nlp: Language, tmp_path: Path) -> None:
    tiny_nlp.add_pipe("denied")
    tiny_nlp("")
    given = {"text": "no MS but MS", "mentions": [{"start": 3, "end": 5}, {"start": 10, "end": 12}]}
    lines = ['{"text": "no MS but MS"}', json.dumps(given)]  # found, and given: both are told
    path, out = write_text(tmp_path / "a.jsonl", "\n".join(lines)), tmp_path / "out.jsonl"
    linking = Linking(tiny_nlp, batch_size=1)
    link_files(linking, path, out)
    plain = records(out)
    link_files(replace(linking, attributes=("denied",)), path, out)
    for record, before in zip(records(out), plain):
        said = [mention.pop("attributes") for mention in record["mentions"]]
        assert said == [{"denied": True}, {"denied": False}]
        assert record == before
    with pytest.raises(PelError, match="mentions have no attribute is_fam.*; choose one of .*den"):
        Linking(tiny_nlp, attributes=("is_family",))


def test_attributes_and_code_decide_what_is_in_a_folder(linking, notes, out, tmp_path) -> None:
    link_to_folder(linking, notes, out)
    with pytest.raises(PelError, match="was made with another list of attributes"):
        link_to_folder(replace(linking, attributes=("read_as",)), notes, out)
    code = tmp_path / "code.py"
    extend = "Span.set_extension('told', default=1, force=True)"
    code.write_text(f"from spacy.tokens import Span\n{extend}")
    with pytest.raises(PelError, match="was made with another file of code, list of attributes"):
        link_to_folder(replace(linking, code=code, attributes=("told",)), notes, out)
    code.write_text("1 / 0")
    with pytest.raises(PelError, match="code.py: cannot be run .ZeroDivisionError: division by"):
        link_to_folder(replace(linking, code=code), notes, out)
