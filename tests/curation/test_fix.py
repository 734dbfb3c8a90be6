import json
from pathlib import Path

import pytest
import spacy
from spacy.language import Language

from spacy_pel.curation.fix import Correction, Export, fix, read_corrections
from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.change import remove_entities
from spacy_pel.kb.corrections import undo
from spacy_pel.kb.knowledge_base import verify
from spacy_pel.pipeline.proxy_linker import ProxyLinker

from ..conftest import pubtator, run_python

NOTE = "RA pressure was high after tricuspid valve surgery; the RA was dilated."
ALIKE = "After tricuspid valve surgery the RA was no longer dilated, pressure was normal."
OTHER = "Methotrexate was given for RA of the hands."


def linker_of(nlp: Language) -> ProxyLinker:
    linker = nlp.get_pipe("proxy_linker")
    assert isinstance(linker, ProxyLinker)
    return linker


def answers(nlp: Language, *texts: str) -> list[list[str]]:
    """The ids of the mentions of texts."""
    return [[ent.kb_id_ for ent in doc.ents] for doc in nlp.pipe(texts)]


def other_than(id: str) -> str:
    """Of the two meanings of RA, the one that is not this."""
    return {"C03": "C04", "C04": "C03"}[id]


def test_the_same_text_before_after_reloaded_and_undone(own_nlp: Language, tmp_path: Path) -> None:
    folder = linker_of(own_nlp).kb.path
    own_nlp.to_disk(tmp_path / "saved")
    texts = NOTE, ALIKE, OTHER
    before = answers(own_nlp, *texts)
    right = other_than(before[0][0])
    [stored] = fix(linker_of(own_nlp), [Correction("", right, text=NOTE, start=0, end=2)])
    assert stored.scope == "text" and stored.number == 1  # RA has two meanings
    fixed = [[right, right], [right], before[2]]
    assert answers(own_nlp, *texts) == fixed  # it was running
    assert answers(spacy.load(tmp_path / "saved"), *texts) == fixed
    ent = own_nlp(NOTE).ents[0]
    assert ent._.kb_probability == 1
    first, *others = ent._.kb_candidates
    assert (first["id"], first["probability"]) == (right, 1)
    assert "[RA] pressure" in first["correction"]
    assert sorted(c["id"] for c in others) == sorted({f"C{n:02}" for n in range(1, 8)} - {right})
    assert not verify(folder)
    undo(folder, [1])
    assert answers(own_nlp, *texts) == before
    assert answers(spacy.load(tmp_path / "saved"), *texts) == before


def test_another_process_corrects(own_nlp: Language) -> None:
    linker = linker_of(own_nlp)
    right = other_than(answers(own_nlp, OTHER)[0][0])
    script = "import sys; from spacy_pel.curation.fix import *\n"
    script += "fix(sys.argv[1], [Correction('ra', sys.argv[2])])"
    run_python(script, linker.kb.path, right)
    assert answers(own_nlp, NOTE, OTHER) == [[right, right], [right]]
    undo(linker.kb.path)
    assert answers(own_nlp, OTHER) != [[right]]


def test_scopes_and_which_goes_first(own_nlp: Language) -> None:
    linker = linker_of(own_nlp)
    assert fix(linker, [Correction("RA", "C07")])[0].scope == "always"
    assert answers(own_nlp, OTHER) == [["C07"]]
    fix(linker, [Correction("RA", "C06", "label", "Procedure")])
    assert answers(own_nlp, OTHER) == [["C07"]]  # its label is TERM
    fix(linker, [Correction("RA", "C05", "label", "term")])
    assert answers(own_nlp, OTHER) == [["C05"]]
    fix(linker, [Correction("RA", "NIL", "text", "", OTHER)])
    assert answers(own_nlp, OTHER, NOTE) == [["NIL"], ["C05", "C05"]]
    assert own_nlp(OTHER).ents[0]._.kb_probability == 0
    # A later one about the same takes the place of the earlier; numbers are not used again.
    made = fix(linker, [Correction("R.A.", "C02", "text", "", OTHER.replace("RA", "R.A."))])
    fix(linker, [Correction("RA", "C01", "text", "", OTHER)])
    assert answers(own_nlp, OTHER) == [["C01"]]
    assert [d.number for d in linker.kb.corrections.decisions] == [1, 2, 3, made[0].number, 6]


@pytest.mark.parametrize("scope", ["always", "text"])
def test_an_acronym_follows_its_long_form_and_not_the_reverse(own_nlp, scope) -> None:
    linker = linker_of(own_nlp)
    ruler = own_nlp.get_pipe("entity_ruler")
    ruler.add_patterns([{"label": "TERM", "pattern": "Multiple sclerosis"}])
    text = "Multiple sclerosis (MS) was seen; MS relapsed."
    assert answers(own_nlp, text) == [["C01", "C01", "C01"]]
    [made] = fix(linker, [Correction("MS", "C02", scope, text=text)])
    assert answers(own_nlp, text) == [["C01", "C02", "C02"]]
    undo(linker.kb.path, [made.number])
    fix(linker, [Correction("Multiple sclerosis", "C02", scope, text=text)])
    assert answers(own_nlp, text) == [["C02", "C02", "C02"]]
    assert answers(own_nlp, "She has MS.") == [["C01"]]


def test_default_scopes(own_nlp: Language) -> None:
    text = "Kidney and head pain, RA, skull ache, aspirin."
    cases = [
        ("Kidney", "C07", "always"),  # its own entity
        ("head pain", "C05", "text"),  # the KB has it for another
        ("RA", "C04", "text"),
        ("skull ache", "C06", "always"),  # nobody's name
        ("aspirin", "NIL", "text"),
    ]
    made = fix(linker_of(own_nlp), [Correction(name, id, text=text) for name, id, _ in cases])
    assert [decision.scope for decision in made] == [scope for *_, scope in cases]


def test_refused_and_nothing_stored(own_nlp: Language) -> None:
    linker = linker_of(own_nlp)
    for wrong, said in (
        (Correction("RA", "C99"), "'C99' is not in"),
        (Correction("RA", "C03", "text"), "no text is given"),
        (Correction("RA", "C03", "label"), "no label is given"),
        (Correction("RA", "C03", "everywhere"), "unknown scope 'everywhere'"),
        (Correction("MS", "C01", text=NOTE), "not at its offsets"),
        (Correction(" ", "C01"), "has no name"),
    ):
        with pytest.raises(PelError, match=said):
            fix(linker, [Correction("RA", "C03"), wrong])
    assert not linker.kb.corrections
    with pytest.raises(PelError, match="has no correction 7"):
        undo(linker.kb.path, [7])


def test_an_entity_that_the_kb_has_no_longer_decides_nothing(own_nlp: Language) -> None:
    linker = linker_of(own_nlp)
    before = answers(own_nlp, OTHER)
    fix(linker, [Correction("RA", "C07")])
    remove_entities(linker.kb.path, ["C07"])
    linker.kb.refresh()
    assert answers(own_nlp, OTHER) == before


def test_alternative_ids_and_a_kb_without_vectors(bare_kb: KnowledgeBase) -> None:
    [stored] = fix(bare_kb.path, [Correction("rheuma", "X3")])
    assert stored.concept_id == "C03" and str(stored) == "rheuma is C03, always"
    assert [str(d) for d in bare_kb.corrections.about("Rheuma")] == ["rheuma is C03, always"]


def test_the_table_of_names_stays(own_nlp: Language) -> None:
    kb = linker_of(own_nlp).kb
    kb.name_finder()
    [table] = kb.path.glob(".names-*")
    content = table.read_bytes()
    fix(kb.path, [Correction("RA", "C03")])
    assert [t.read_bytes() for t in kb.path.glob(".names-*")] == [content]
    assert kb.settings["checksum"] != KnowledgeBase.open(kb.path).settings["checksum"]


def test_the_id_of_a_rule_is_an_answer(own_nlp: Language) -> None:
    ruler = own_nlp.get_pipe("entity_ruler")
    ruler.clear()
    rules = {"RA": "C07", "hands": "body-part"}
    ruler.add_patterns([{"label": "TERM", "pattern": p, "id": id} for p, id in rules.items()])
    doc = own_nlp(OTHER)
    assert [ent.kb_id_ for ent in doc.ents][0] == "C07"
    assert doc.ents[0]._.kb_candidates[0]["correction"] == "RA is C07, as a rule says"
    assert doc.ents[1]._.kb_candidates[0]["correction"] is None


def test_what_the_page_exports(own_nlp: Language, tmp_path: Path) -> None:
    mentions = [
        {"start": 0, "end": 2, "text": "RA", "label": "TERM", "id": "C04", "name": "right atrium"},
        {"start": 27, "end": 36, "label": "TERM", "id": "NIL", "name": None, "candidates": []},
        {"start": 56, "end": 58, "label": "TERM", "id": "C03", "score": 0.7, "probability": None},
        {"start": 63, "end": 70, "label": "TERM", "id": "C99"},
    ]
    record = {"text": NOTE, "mentions": mentions}
    kb = linker_of(own_nlp).kb
    atrium = Correction("RA", "C04", "", "TERM", NOTE, 0, 2)
    wanted = Export([atrium, Correction("tricuspid", "NIL", "", "TERM", NOTE, 27, 36)], ["C99"])
    for name, content in (
        ("1.json", record),
        ("2.json", {"documents": [record]}),
        ("3.jsonl", record),
    ):
        (tmp_path / name).write_text(json.dumps(content))
        assert read_corrections(tmp_path / name, kb) == wanted
    (tmp_path / "gold.pubtator").write_text(pubtator(OTHER, [("RA", "C99|C03"), ("hands", "-1")]))
    [found] = read_corrections(tmp_path / "gold.pubtator", kb).corrections
    assert found[:2] == ("RA", "C03")
