import json
from pathlib import Path

import pytest
from spacy.language import Language

from spacy_pel.batch.discover import discover
from spacy_pel.batch.embed import embed_kb
from spacy_pel.batch.link_docs import Linking
from spacy_pel.coreference.joint import Neighbourhood
from spacy_pel.curation.kb_encoder import change_from_source
from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase, build_kb

from ..cli.conftest import write_entities
from ..conftest import ENTITIES, records, write_text
from .conftest import make_joint


def line(text: str, **ids: str) -> str:
    """A document as pel link writes it: its mentions with their ids."""
    found = [(key.replace("_", " "), id) for key, id in ids.items()]
    mentions = [
        {"start": text.index(w), "end": text.index(w) + len(w), "label": "Virus", "id": id}
        for w, id in found
    ]
    return json.dumps({"id": text.split()[0], "text": text, "mentions": mentions})


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """What pel link wrote: three mentions that are NIL, of two names."""
    lines = [
        line("a1 A new virus and headache.", new_virus="NIL", headache="C06"),
        line("a2 The new virus is here.", new_virus="NIL"),
        line("a3 Some kidney.", kidney="NIL"),
    ]
    return write_text(tmp_path / "linked.jsonl", "\n".join(lines))


@pytest.fixture
def linking(tiny_nlp: Language) -> Linking:
    """A linker that takes mentions for the same if their vectors nearly are."""
    make_joint(tiny_nlp, discovery=Neighbourhood(4, 0.5, False), intercept=-9.0)
    return Linking(tiny_nlp, batch_size=1, keep_ids=True)


def test_mentions_that_are_nil_become_proposals(linking: Linking, linked: Path) -> None:
    output = linked.with_name("proposals.jsonl")
    report = discover(linking, [linked], output)
    found = records(output)
    assert report.linked.mentions == 4 and report.proposals == len(found)
    assert sum(own["mentions"] for own in found) == 3
    names = {name for own in found for name in (own["canonical_name"], *own["aliases"])}
    assert names == {"new virus", "kidney"}
    (virus,) = [own for own in found if "new virus" in (own["canonical_name"], *own["aliases"])]
    assert virus["types"] == ["Virus"] and virus["probability"] == 1.0
    assert virus["documents"] == virus["mentions"]
    places = [(e["document"], e["before"], e["text"]) for e in virus["examples"]]
    assert places[:2] == [("a1", "a1 A ", "new virus"), ("a2", "a2 The ", "new virus")]
    scores = [entity["score"] for entity in virus["nearest"]]
    assert len(scores) == 5 and scores == sorted(scores, reverse=True)


def entity_of(linking: Linking, folder: Path, name: str = "new virus") -> str:
    """What a name is linked to in a KB."""
    linking.linker.set_kb(folder)
    doc = linking.nlp.make_doc(f"A {name}.")
    doc.ents = [doc.char_span(2, 2 + len(name), label="Virus")]
    return linking.linker(doc).ents[0].kb_id_


@pytest.mark.parametrize("rebuilt", [False, True])
def test_what_was_accepted_is_linked_to_and_stays_in_a_new_release(
    linking: Linking, linked: Path, tmp_path: Path, rebuilt: bool
) -> None:
    """A release is merged into the KB; or a KB is built of it, and gets what was accepted again."""
    folder, accepted = build_kb(ENTITIES[:6], tmp_path / "kb").path, tmp_path / "proposals.jsonl"
    embed_kb(folder, linking.linker)
    linking.linker.set_kb(folder)
    discover(linking, [linked], accepted)
    added = change_from_source("add", folder, accepted, linker=linking.linker).added
    assert added == len(records(accepted))
    linking.linker.nil_threshold = 2.0  # above each score: only exact names say that it is not NIL
    before = entity_of(linking, folder)
    assert before.startswith("NEW:") and entity_of(linking, folder, "kidney").startswith("NEW:")

    entities = [ENTITIES[0]._replace(canonical_name="MS, multiple"), *ENTITIES[1:4], ENTITIES[6]]
    release = write_entities(tmp_path / "release.jsonl", entities)
    if rebuilt:
        folder = build_kb(entities, tmp_path / "new").path
        embed_kb(folder, linking.linker)
        change_from_source("add", folder, accepted, linker=linking.linker)
    else:
        change_from_source("merge", folder, release, linker=linking.linker)
    kb = KnowledgeBase.open(folder)
    assert "MS, multiple" in kb["C01"].names and kb["C07"].canonical_name == "kidney"
    assert entity_of(linking, folder) == before


def test_the_page_holds_the_proposals_and_nothing_of_another_host(linking, linked) -> None:
    evil = "a4 </script><b>new virus</b>"
    linked.write_text(linked.read_text() + "\n" + line(evil, new_virus="NIL"))
    output = linked.with_name("proposals.jsonl")
    page = discover(linking, [linked], output).page.read_text("utf8")
    data = page.partition('type="application/json">')[2].partition("</script>")[0]
    assert json.loads(data) == records(output)
    assert "http://" not in page and "https://" not in page and "/*" + "DATA" not in page
    with pytest.raises(PelError, match="not the name of a JSONL file; end it in .jsonl"):
        discover(linking, [linked], output.with_suffix(".csv"))
