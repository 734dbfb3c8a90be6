"""Files are linked to a file, a stream or a folder of blocks: each document once, whatever happened."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from spacy.language import Language

from spacy_pel.errors import PelError
from spacy_pel.jobs.document_blocks import OnError
from spacy_pel.jobs.link import FolderJob, link_files, link_to_folder, linking_settings
from spacy_pel.jobs.link_docs import Linking, LinkingChoices, link_documents
from spacy_pel.pipeline.proxy_linker import ProxyLinker

from .conftest import TEXTS, Told, files

BLOCKS = ["a.jsonl-00000001", "a.jsonl-00000003", "a.jsonl-00000005", "b.jsonl-00000001"]


@pytest.fixture
def case_notes(notes: Path) -> Path:
    """Five documents, two of which make a part."""
    path = notes.parent / "notes.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf8")
    return path


def test_a_file_and_a_stream_hold_what_docs_give(tiny_nlp: Language, case_notes: Path) -> None:
    told = Told()
    output = case_notes.with_name("linked.jsonl")
    linking = Linking(tiny_nlp, batch_size=1)
    assert link_files(linking, case_notes, output, progress=told) == (5, 5, ())
    records = [json.loads(line) for line in output.read_text("utf8").splitlines()]
    docs = link_documents(tiny_nlp, map(tiny_nlp.make_doc, TEXTS), batch_size=1)
    assert [r["mentions"] for r in records] == [r["mentions"] for r in docs]
    assert told.total == case_notes.stat().st_size == pytest.approx(told.bytes)
    stream = io.BytesIO()
    link_files(linking, str(case_notes), stream)
    assert stream.getvalue() == output.read_bytes()


def test_all_bytes_are_told_of_a_run_that_goes_on(
    tiny_nlp: Language, case_notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = case_notes.with_name("linked.jsonl")
    linking = Linking(tiny_nlp, batch_size=1)

    class Interrupting(Told):
        def linked(self, n_bytes: float) -> None:
            super().linked(n_bytes)
            if self.bytes > case_notes.stat().st_size / 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        link_files(linking, case_notes, output, progress=Interrupting())
    assert not output.exists()
    told = Told()
    assert link_files(linking, case_notes, output, progress=told).documents == 5
    assert told.lines == ["Going on after 2 documents that were linked before"]
    assert told.bytes == pytest.approx(case_notes.stat().st_size)


def test_what_cannot_be_written(tiny_nlp: Language, case_notes: Path) -> None:
    linking = Linking(tiny_nlp)
    with pytest.raises(PelError, match="format to write is not known; end the name in one of"):
        link_files(linking, case_notes, case_notes.with_name("linked.pdf"))
    with pytest.raises(PelError, match="is what is read"):
        link_files(linking, case_notes, case_notes, output_format="jsonl")
    with pytest.raises(PelError, match="parquet cannot be written to stdout"):
        link_files(linking, case_notes, io.BytesIO(), output_format="parquet")


def ids(folder: Path) -> list[str]:
    lines = b"".join(files(folder).values()).splitlines()
    return [json.loads(line)["id"] for line in lines]


def linked_texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are linked from now on."""
    linked: list[str] = []

    def noted(linker: ProxyLinker, docs: list, predict=ProxyLinker.predict):
        linked.extend(doc.text for doc in docs)
        return predict(linker, docs)

    monkeypatch.setattr(ProxyLinker, "predict", noted)
    return linked


def test_blocks_are_what_a_single_file_holds(
    choices: LinkingChoices, notes: Path, out: Path
) -> None:
    told = Told()
    assert link_to_folder(choices, notes / "a.jsonl", out, progress=told) == (5, 5, ())
    assert list(files(out)) == BLOCKS[:3]
    single = out.with_name("single.jsonl")
    link_files(choices.opened(), notes / "a.jsonl", single)
    assert b"".join(files(out).values()) == single.read_bytes()
    assert told.bytes == pytest.approx((notes / "a.jsonl").stat().st_size)


def test_each_block_of_a_table_is_a_table(choices: LinkingChoices, notes: Path, out: Path) -> None:
    import duckdb

    link_to_folder(choices, notes, out, output_format="parquet")
    query = f"SELECT document FROM '{out}/*.parquet' ORDER BY ALL"
    assert [row[0] for row in duckdb.sql(query).fetchall()] == [*(f"a{n}" for n in range(5)), "b0"]
    link_to_folder(choices, notes, out.with_name("csv"), output_format="csv")
    heads = {path.read_text().splitlines()[0] for path in out.with_name("csv").glob("*.csv")}
    assert len(heads) == 1 and heads.pop().startswith("document,start,end")


def test_what_stands_there_is_left_out(
    choices: LinkingChoices, notes: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link_to_folder(choices, notes, out)
    whole = files(out)
    # A kill right before the entry is written, and one right before the file is.
    (out / ".pel" / f"{BLOCKS[1]}.json").unlink()
    (out / f"{BLOCKS[3]}.jsonl").unlink()
    told, linked = Told(), linked_texts(monkeypatch)
    assert link_to_folder(choices, notes, out, progress=told).documents == 6
    assert linked == [*TEXTS[2:4], "The patient has MS."]
    assert files(out) == whole
    assert told.bytes == pytest.approx(told.total)


def test_what_changes_in_the_input(
    choices: LinkingChoices, notes: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link_to_folder(choices, notes, out)
    linked = linked_texts(monkeypatch)
    (notes / "c.jsonl").write_text('{"text": "MS again.", "id": "c0"}\n')
    assert link_to_folder(choices, notes, out).documents == 7
    assert linked == ["MS again."]
    (notes / "b.jsonl").unlink()
    lines = (notes / "a.jsonl").read_text().splitlines()
    (notes / "a.jsonl").write_text("\n".join(lines[1:]) + "\n")
    assert link_to_folder(choices, notes, out).documents == 5
    assert ids(out) == ["a1", "a2", "a3", "a4", "c0"]
    assert list(files(out)) == [*BLOCKS[:2], "c.jsonl-00000001"]


def test_blocks_of_other_settings_are_not_mixed(
    choices: LinkingChoices, notes: Path, out: Path
) -> None:
    link_to_folder(choices, notes, out)
    with pytest.raises(PelError, match="was made with another number of candidates; give a new"):
        link_to_folder(choices._replace(candidates=2), notes, out)


def test_a_bad_document(choices: LinkingChoices, notes: Path, out: Path) -> None:
    with open(notes / "a.jsonl", "a") as file:
        file.write("{\n")
    with pytest.raises(PelError, match="document 6: a.jsonl, line 6: .*--on-error skip"):
        link_to_folder(choices, notes, out)
    skipping = choices._replace(on_error=OnError.skip)
    documents, _, skipped = link_to_folder(skipping, notes, out)
    assert documents == 6 and len(skipped) == 1
    assert link_to_folder(skipping, notes, out).skipped == skipped
    with pytest.raises(PelError, match="line 6"):  # also where the block is there already
        link_to_folder(choices, notes, out)


@pytest.mark.parametrize(
    "input, change, problem",
    [
        ("-", {}, "-: is no file or folder of files; give one, or name a file"),
        ("notes", {"jointly": True}, "linked jointly is one file"),
        ("notes", {"pipeline": "nowhere"}, "nowhere: cannot be loaded"),
    ],
)
def test_what_cannot_be_linked(
    choices: LinkingChoices, notes: Path, out: Path, input: str, change: dict, problem: str
) -> None:
    given = str(notes) if input == "notes" else input
    with pytest.raises(PelError, match=problem):
        link_to_folder(choices._replace(**change), given, out)
    assert not out.exists()


def test_folders_of_others_are_left_alone(choices: LinkingChoices, notes: Path, out: Path) -> None:
    before = files(notes)
    with pytest.raises(PelError, match="is what is read"):
        link_to_folder(choices, notes, notes, output_format="jsonl")
    (out / "mine").mkdir(parents=True)
    with pytest.raises(PelError, match="holds other files"):
        link_to_folder(choices, notes, out)
    with pytest.raises(PelError, match='unknown engine "spark"; choose one of local, ray'):
        link_to_folder(choices, notes, out, engine="spark")
    assert files(notes) == before and [path.name for path in out.iterdir()] == ["mine"]


def job_of(choices: LinkingChoices, **changes: object) -> FolderJob:
    settings = {**linking_settings(choices.opened()), "format": "jsonl"}
    return FolderJob(choices, settings, "out")._replace(**changes)


def test_a_node_with_another_pipeline_does_not_link(choices: LinkingChoices) -> None:
    job = job_of(choices)
    versions = {**job.settings["set of versions"], "torch": "0.1"}
    other = job._replace(settings={**job.settings, "set of versions": versions})
    with pytest.raises(PelError, match="has another set of versions; install the same on all"):
        other.worker("cpu")


def test_a_node_reads_its_copy_of_the_kb(
    choices: LinkingChoices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []
    monkeypatch.setenv("NODE_DISK", str(tmp_path / "disk"))
    monkeypatch.setattr(
        "spacy_pel.jobs.link._write", lambda linking, *_: used.append(linking.linker)
    )
    monkeypatch.setattr("spacy_pel.jobs.link.worker_that_writes", lambda _, write: write())
    job_of(choices, copy_to="$NODE_DISK/kb").worker("cpu")
    assert used[0].kb.path.parent == tmp_path / "disk" / "kb"
    assert used[0].kb.settings["checksum"] == choices.opened().linker.kb.settings["checksum"]
