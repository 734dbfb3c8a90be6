"""Proposals of entities that the KB lacks, from files; accepted ones are linked to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from spacy.language import Language

from spacy_pel.errors import PelError
from spacy_pel.jobs.change_kb import change_from_source
from spacy_pel.jobs.discover import discover
from spacy_pel.jobs.document_blocks import LinkProgress
from spacy_pel.jobs.embed import embed_kb
from spacy_pel.jobs.link_docs import Linking
from spacy_pel.kb import KnowledgeBase, build_kb
from spacy_pel.linking.joint import Neighbourhood

from ..conftest import ENTITIES
from .joint_corpus import make_joint


def line(text: str, **ids: str) -> str:
    """A document as pel link writes it: its mentions with their ids."""
    mentions = [
        {
            "start": text.index(words),
            "end": text.index(words) + len(words),
            "label": "Virus",
            "id": id,
        }
        for words, id in ((key.replace("_", " "), id) for key, id in ids.items())
    ]
    return json.dumps({"id": text.split()[0], "text": text, "mentions": mentions})


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """What pel link wrote: three mentions that are NIL, of two names."""
    path = tmp_path / "linked.jsonl"
    path.write_text(
        "\n".join([
            line("a1 A new virus and headache.", new_virus="NIL", headache="C06"),
            line("a2 The new virus is here.", new_virus="NIL"),
            line("a3 Some kidney.", kidney="NIL"),
        ])
    )  # fmt: skip
    return path


@pytest.fixture
def linking(tiny_nlp: Language) -> Linking:
    """A linker that takes mentions for the same if their vectors nearly are."""
    linker = make_joint(tiny_nlp, discovery=Neighbourhood(4, 0.5, False)).get_pipe("proxy_linker")
    linker.joint = linker.joint._replace(slope=10.0, intercept=-9.0)
    return Linking(tiny_nlp, batch_size=1, keep_ids=True)


def proposals_in(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf8").splitlines()]


def test_mentions_that_are_nil_become_proposals(linking: Linking, linked: Path) -> None:
    output = linked.with_name("proposals.jsonl")
    report = discover(linking, [linked], output)
    found = proposals_in(output)
    assert report.linked.mentions == 4 and report.proposals == len(found)
    assert sum(own["mentions"] for own in found) == 3
    names = {name for own in found for name in (own["canonical_name"], *own["aliases"])}
    assert names == {"new virus", "kidney"}
    (virus,) = [own for own in found if "new virus" in (own["canonical_name"], *own["aliases"])]
    assert (virus["types"], virus["sure"], virus["documents"]) == (
        ["Virus"],
        1.0,
        virus["mentions"],
    )
    places = [(e["document"], e["before"], e["text"]) for e in virus["examples"]]
    assert places[:2] == [("a1", "a1 A ", "new virus"), ("a2", "a2 The ", "new virus")]
    scores = [entity["score"] for entity in virus["nearest"]]
    assert len(scores) == 5 and scores == sorted(scores, reverse=True)


def test_mentions_of_a_text_are_linked_first(linking: Linking, tmp_path: Path) -> None:
    linking.linker.nil_threshold = 2.0
    linking.linker.sure_probability = None  # so all are NIL
    texts = tmp_path / "a.txt", tmp_path / "b.txt"
    for path in texts:
        path.write_text("It is aspirin.\n", encoding="utf8")
    output = tmp_path / "proposals.jsonl"
    report = discover(Linking(linking.nlp), texts, output)
    (own,) = proposals_in(output)
    assert (own["canonical_name"], own["mentions"], report.proposals) == ("aspirin", 2, 1)
    discover(Linking(linking.nlp), texts, output, least_mentions=3)
    assert proposals_in(output) == []


def test_an_interrupted_run_gives_the_same_bytes(
    linking: Linking, linked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spacy_pel.jobs.link.DOCUMENTS_PER_BLOCK", 1)
    whole, broken = linked.with_name("whole.jsonl"), linked.with_name("broken.jsonl")
    discover(linking, [linked], whole)

    class Interrupting(LinkProgress):
        def linked(self, n_bytes: float) -> None:
            if broken.with_name("broken.jsonl.parts").joinpath(".pel/00000001.json").exists():
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        discover(linking, [linked], broken, progress=Interrupting())
    assert not broken.exists()
    discover(linking, [linked], broken)
    for suffix in (".jsonl", ".html"):
        assert broken.with_suffix(suffix).read_bytes() == whole.with_suffix(suffix).read_bytes()


def test_what_was_accepted_is_linked_to_and_stays(
    linking: Linking, linked: Path, tmp_path: Path
) -> None:
    linker = linking.linker
    folder = build_kb(ENTITIES[:6], tmp_path / "kb").path
    embed_kb(folder, linker)
    linker.set_kb(folder)
    output = linked.with_name("proposals.jsonl")
    discover(linking, [linked], output)
    assert change_from_source("add", folder, output, linker=linker).added == len(
        proposals_in(output)
    )
    assert KnowledgeBase.open(folder).named("new virus")
    assert entity_of(linking, folder).startswith("NEW:")
    linker.nil_threshold = 2.0  # above each score: only its exact name says that it is not NIL
    texts = ["A new virus and no rest.", "The new virus is here.", "Some kidney."]
    for text, words in zip(texts, ("new virus", "new virus", "kidney")):
        doc = linking.nlp.make_doc(text)
        start = text.index(words)
        doc.ents = [doc.char_span(start, start + len(words), label="Virus")]
        assert linker(doc).ents[0].kb_id_.startswith("NEW:")


def entity_of(linking: Linking, folder: Path) -> str:
    """What "new virus" is linked to in a KB."""
    linking.linker.set_kb(folder)
    doc = linking.nlp.make_doc("A new virus.")
    doc.ents = [doc.char_span(2, 11, label="Virus")]
    return linking.linker(doc).ents[0].kb_id_


@pytest.mark.parametrize("rebuilt", [False, True])
def test_what_was_accepted_stays_in_a_new_release(
    linking: Linking, linked: Path, tmp_path: Path, rebuilt: bool
) -> None:
    """A release is merged into the KB; or a KB is built of it, and gets what was accepted again."""
    folder, accepted = build_kb(ENTITIES[:6], tmp_path / "kb").path, tmp_path / "proposals.jsonl"
    embed_kb(folder, linking.linker)
    linking.linker.set_kb(folder)
    discover(linking, [linked], accepted)
    change_from_source("add", folder, accepted, linker=linking.linker)
    before = entity_of(linking, folder)
    assert before.startswith("NEW:")

    release = tmp_path / "release.jsonl"
    entities = [ENTITIES[0]._replace(canonical_name="MS, multiple"), *ENTITIES[1:4], ENTITIES[6]]
    release.write_text("\n".join(json.dumps(entity._asdict()) for entity in entities), "utf8")
    if rebuilt:
        folder = build_kb(entities, tmp_path / "new").path
        embed_kb(folder, linking.linker)
        change_from_source("add", folder, accepted, linker=linking.linker)
    else:
        change_from_source("merge", folder, release, linker=linking.linker)
    kb = KnowledgeBase.open(folder)
    assert "MS, multiple" in kb["C01"].names and kb["C07"].canonical_name == "kidney"
    assert entity_of(linking, folder) == before


def test_the_page_holds_the_proposals_and_nothing_of_another_host(
    linking: Linking, linked: Path
) -> None:
    evil = "a4 </script><b>new virus</b>"
    linked.write_text(linked.read_text() + "\n" + line(evil, new_virus="NIL"))
    page = discover(linking, [linked], linked.with_name("proposals.jsonl")).page.read_text("utf8")
    start = page.index('type="application/json">') + len('type="application/json">')
    assert json.loads(page[start : page.index("</script>", start)]) == proposals_in(
        linked.with_name("proposals.jsonl")
    )
    assert "http://" not in page and "https://" not in page and "/*" + "DATA" not in page


def test_the_output_is_jsonl(linking: Linking, linked: Path) -> None:
    with pytest.raises(PelError, match="not the name of a JSONL file; end it in .jsonl"):
        discover(linking, [linked], linked.with_name("proposals.csv"))
