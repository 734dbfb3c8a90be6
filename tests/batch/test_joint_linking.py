from pathlib import Path

import numpy as np
import pytest
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from spacy_pel.batch.document_blocks import LinkedCounts
from spacy_pel.batch.link_docs import Linking, link_documents
from spacy_pel.batch.link_files import link_files
from spacy_pel.coreference.joint import Neighbourhood

from .conftest import Told, make_joint

TEXTS = [f"Case {n}: {text}" for n in range(4) for text in ("MS and RA.", "headache by MS.")]


def write_texts(path: Path, texts: list[str] = TEXTS) -> Path:
    """Write texts, one a line."""
    path.write_text("\n".join(texts) + "\n", encoding="utf8")
    return path


@pytest.fixture
def joint_nlp(tiny_nlp: Language) -> Language:
    return make_joint(tiny_nlp)


def linked_jointly(nlp: Language, folder: Path, texts: list[str] = TEXTS) -> list[Doc]:
    """The docs of texts, linked through files."""
    linking, path = Linking(nlp, batch_size=4, jointly=True), folder / "joint.spacy"
    link_files(linking, write_texts(folder / "texts.txt", texts), path)
    return list(DocBin().from_disk(path).get_docs(nlp.vocab))


def test_mentions_that_are_alike_get_the_entity_of_one_of_them(joint_nlp, tmp_path) -> None:
    docs = linked_jointly(joint_nlp, tmp_path)
    by_themselves = link_documents(joint_nlp, map(joint_nlp.make_doc, TEXTS))
    alone = [mention for doc in by_themselves for mention in doc["mentions"]]
    ents = [ent for doc in docs for ent in doc.ents]
    at = {(str(n), e.start_char): e for n, doc in enumerate(docs, 1) for e in doc.ents}
    through = [ent for ent in ents if ent._.kb_via]
    assert 0 < len(through) < len(ents)
    for ent in through:
        via = ent._.kb_via
        other = at[via["document"], via["start"]]
        assert (other.text, other.end_char) == (via["text"], via["end"])
        assert other.kb_id_ == ent.kb_id_
    for ent, own in zip(ents, alone):
        if ent._.kb_via is None:
            assert ent.kb_id_ == own["id"]
        assert ent._.kb_vector is None
        assert ent._.kb_id == ent.kb_id_ == ent._.kb_candidates[0]["id"] == ent._.kb_ents[0][0]


def test_another_entity_comes_with_its_name_types_and_score(tiny_nlp, tmp_path) -> None:
    """All mentions are joined, so all but one change."""
    nlp = make_joint(tiny_nlp, Neighbourhood(8, 0.0, False), intercept=50.0)
    nlp.get_pipe("proxy_linker").search.candidates = 2
    nlp.get_pipe("proxy_linker").output.xrefs = ["X"]
    kb = nlp.get_pipe("proxy_linker").kb
    docs = linked_jointly(nlp, tmp_path)
    ents = [ent for doc in docs for ent in doc.ents]
    assert len({ent.kb_id_ for ent in ents}) == 1
    changed = [ent for ent in ents if ent._.kb_probability is None]
    assert changed
    for ent in changed:
        first, *others = ent._.kb_candidates
        entity = kb[ent.kb_id_]
        assert (first["name"], list(ent._.kb_types)) == (entity.canonical_name, list(entity.types))
        assert len(others) == 1 and others[0]["id"] != ent.kb_id_
        assert first["score"] == ent._.kb_score == pytest.approx(searched(nlp, ent), abs=1e-5)
        assert {name: list(codes) for name, codes in ent._.kb_xrefs.items()} == {"X": []}


def searched(nlp: Language, ent) -> float:
    """The score of a mention's entity, by a search of the KB for the mention alone."""
    linker = nlp.get_pipe("proxy_linker")
    doc = nlp.make_doc(ent.doc.text)
    doc.ents = [doc.char_span(ent.start_char, ent.end_char, label="TERM")]
    found = linker.kb.search(linker.predict([doc])[1].vectors, len(linker.kb))
    (place,) = np.flatnonzero(found.numbers[0] == linker.kb.number(ent.kb_id_))
    return float(found.scores[0, place])


@pytest.mark.parametrize("suffix", ["jsonl", "spacy"])
def test_an_interrupted_run_goes_on_to_the_same_bytes(
    joint_nlp: Language, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, caplog
) -> None:
    monkeypatch.setattr("spacy_pel.batch.link_files.DOCUMENTS_PER_BLOCK", 3)
    texts = write_texts(tmp_path / "texts.txt")
    linking = Linking(joint_nlp, batch_size=1, jointly=True)
    whole, broken = tmp_path / f"whole.{suffix}", tmp_path / f"broken.{suffix}"
    two = Linking(joint_nlp, batch_size=1, n_process=2, jointly=True)
    assert link_files(two, texts, whole) == LinkedCounts(8, 16)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for at in ("linking", "joining"):
        with pytest.raises(KeyboardInterrupt), monkeypatch.context() as patch:
            if at == "joining":
                patch.setattr("spacy_pel.batch.joint_linking.write_joint_links", killed)
            link_files(linking, texts, broken, progress=Told(break_at=7 * (at == "linking")))
    assert not broken.exists()
    caplog.clear()
    link_files(linking, texts, broken)
    assert caplog.messages == ["linked 16 mentions one by one; joining them"]
    assert broken.read_bytes() == whole.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"texts.txt", whole.name, broken.name}


def test_without_mentions_there_is_nothing_to_join(joint_nlp: Language, tmp_path: Path) -> None:
    docs = linked_jointly(joint_nlp, tmp_path, ["Nothing.", "Nothing at all."])
    assert [(doc.text, doc.ents) for doc in docs] == [("Nothing.", ()), ("Nothing at all.", ())]
