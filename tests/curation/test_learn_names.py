from pathlib import Path

import pytest

from spacy_pel.corpora.document import Mention
from spacy_pel.corpora.open_documents import open_documents
from spacy_pel.curation.learn_names import learn_acronyms, learn_names, new_names
from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.change import change_entities, remove_entities
from spacy_pel.kb.knowledge_base import OTHER_SENSE, verify
from spacy_pel.text.mention_inputs import GoldMention, MentionInContext

from ..conftest import write_text
from ..kb.living import execute

ARTHRITIS, ATRIUM, KIDNEY = 2, 3, 6


@pytest.mark.parametrize(
    "said, expected",
    [
        # the entity that it means in most documents, then in most mentions
        ("1 joints 3, 1 joints 3, 1 joints 2, 2 joints 2, 2 renal 6, 3 renal 6, 4 atria 3, 4 atria 2, "
         "4 atria 3", {ARTHRITIS: ["joints"], KIDNEY: ["renal"], ATRIUM: ["atria"]}),
        ("1 x 6, 2 x 6, 1 x 3, 2 x 3", {ATRIUM: ["x"]}),  # of several the first
        # case, blanks and punctuation do not count
        ("1 Kidney 6, 1 rheumatoid-ARTHRITIS 2, 1 kid-ney 6, 1 kid_ney 6", {KIDNEY: ["kid-ney"]}),
        ("1 both 2 3, 2 both 2 3, 1 _ 6", {}),
        # a single document says it: the name has to resemble one of the entity
        ("1 joints 2, 1 joints 2, 1 RhA 2", {ARTHRITIS: ["RhA"]}),
        # another entity has the name: one document is an error, two are none
        ("1 head_pain 6, 1 kidneys 6", {KIDNEY: ["kidneys"]}),
        ("1 head_pain 6, 2 head_pain 6", {KIDNEY: ["head pain"]}),
        # some mention agrees with the KB
        ("1 head_pain 6, 2 head_pain 6, 3 head_pain 6, 1 head_pain 5", {}),
    ],
)  # fmt: skip
def test_new_names(bare_kb: KnowledgeBase, said: str, expected: dict[int, list[str]]) -> None:
    """Mentions are written: document, name, numbers of entities."""
    mentions = []
    for document, name, *golds in map(str.split, said.split(", ")):
        context = MentionInContext(f"the {name.replace('_', ' ')}.", 4, 4 + len(name))
        mentions.append(GoldMention(context, tuple(map(int, golds)), document))
    assert new_names(mentions, bare_kb) == expected
    assert new_names([], bare_kb) == {}


def test_a_kb_learns_the_names_of_a_corpus(bare_kb: KnowledgeBase, tmp_path: Path) -> None:
    path = tmp_path / "train.pubtator"
    text = "1|t|Renal cephalea.\n1\t0\t5\tRenal\tT\tC07\n1\t6\t14\tcephalea\tT\tC06\n\n"
    text += "2|t|Renal.\n2\t0\t5\tRenal\tT\tC07\n"
    path.write_text(text, "utf8")
    read: list[None] = []
    learnt = learn_names(bare_kb.path, [path], progress=lambda: read.append(None))
    assert (learnt.names, learnt.mentions, learnt.changes.updated, len(read)) == (2, 3, 2, 2)
    kb = KnowledgeBase.open(bare_kb.path)
    assert kb["C07"].aliases == ("Renal",) and kb["C06"].aliases[-1] == "cephalea"
    assert learn_names(bare_kb.path, [path]).names == 0
    path.write_text(text.replace("C0", "Z"), "utf8")
    with pytest.raises(PelError, match="no mention of .*train.pubtator has an entity in"):
        learn_names(bare_kb.path, [path])


@pytest.mark.parametrize(
    "lines, counts, aliases",
    [
        # RA is known of both
        ("Acetylsalicylic acid (ASA)\nDisseminated sclerosis (DS), rheumatoid arthritis (RA) and "
         "right atrium (RA).", (2, 2, 0), {"C05": ["ASA"], "C01": ["DS"], "C03": []}),
        ("rheumatoid arthritis (RAT)\nright atrium (RAT)\nright atrium (RAT) again", (2, 3, 1),
         {"C03": ["RAT"], "C04": ["RAT"]}),
    ],
)  # fmt: skip
def test_a_kb_learns_acronyms(bare_kb, tmp_path, lines, counts, aliases) -> None:
    texts = write_text(tmp_path / "texts.txt", lines)
    learnt = learn_acronyms(bare_kb.path, [str(texts)])
    assert (learnt.names, learnt.texts, learnt.ambiguous) == counts
    with KnowledgeBase.open(bare_kb.path) as kb:
        for id, new in aliases.items():
            assert kb[id].aliases == (*bare_kb[id].aliases, *new)


def test_a_kb_counts_the_texts_that_define_an_acronym(bare_kb, tmp_path) -> None:
    def learn(name: str, *lines: str) -> None:
        (tmp_path / name).write_text("\n".join(lines), "utf8")
        learn_acronyms(bare_kb.path, [str(tmp_path / name)])

    def counted() -> dict[str, int]:
        with KnowledgeBase.open(bare_kb.path) as kb:
            return {kb.entities([n])[0].concept_id: c for n, c in kb.definitions("rat").items()}

    learn("a.txt", "head pain (RAT)", "right atrium (RAT)", "rheumatoid arthritis (RAT)")
    learn("b.txt", "right atrium (RAT)", "right atrium (RAT) again", "head pain (HP)")
    assert counted() == {"C03": 1, "C04": 3}  # "head pain" has no such letters
    learn("b.txt", "right atrium (RAT)")  # in the place of what this source said
    remove_entities(bare_kb.path, ["C03"])
    change_entities(bare_kb.path, "merge", [Entity("C04", "atrium of the right")])
    assert counted() == {"C04": 2}
    assert bare_kb.definitions("nothing") == {} and verify(bare_kb.path) == []


def test_a_line_of_a_list_counts_for_a_sense_that_is_no_entity(bare_kb, tmp_path) -> None:
    lines = "room air (RA)\nroom air (RA)\nright atrium (RA)\nOn room air (RA).\nnurse (NX)\n"
    texts = write_text(tmp_path / "texts.txt", lines)
    learnt = learn_acronyms(bare_kb.path, [str(texts)])
    assert (learnt.names, learnt.texts, learnt.other_senses) == (0, 5, 2)
    with KnowledgeBase.open(bare_kb.path) as kb:
        atrium = kb.number("C04")
        assert kb.definitions("RA") == {atrium: 1, OTHER_SENSE: 2}
        assert set(kb.acronyms) == {"ra"} and verify(bare_kb.path) == []
    write_text(texts, "room air (RA)\n")
    learn_acronyms(bare_kb.path, [str(texts)])
    with KnowledgeBase.open(bare_kb.path) as kb:  # an acronym of no entity is none of the KB
        assert kb.definitions("RA") == {OTHER_SENSE: 1} and not kb.acronyms


def test_damaged_counts_do_not_count(bare_kb: KnowledgeBase) -> None:
    rows = '[1, ["MS", "C01"], ["MS", "C01", -1]]'
    execute(bare_kb.path, f"INSERT INTO setting VALUES ('acronyms of x', '{rows}')")
    assert KnowledgeBase.open(bare_kb.path).definitions("MS") == {}
    execute(bare_kb.path, "INSERT INTO setting VALUES ('acronyms of y', '{}}')")
    with pytest.raises(PelError, match="cannot be read"):
        bare_kb.definitions("MS")


def test_weakly_labelled_documents_hide_definitions_and_annotate_each_mention(bare_kb, tmp_path):
    texts, labelled = tmp_path / "texts.txt", tmp_path / "labelled.pubtator"
    told = "Rheumatoid arthritis (RAT) and PCR (polymerase chain reaction). RAT is no RATS."
    texts.write_text(f"None here.\n{told}\n", "utf8")
    learnt = learn_acronyms(bare_kb.path, [str(texts)], weak_labels=labelled)
    [raw] = open_documents(labelled)
    document = raw.document(None)
    assert document.text == "RAT and PCR (polymerase chain reaction). RAT is no RATS."
    assert (learnt.weakly_labelled, document.mentions) == (
        1,
        (Mention(0, 3, "RAT", "Acronym", ("C03",)), Mention(41, 44, "RAT", "Acronym", ("C03",))),
    )
    before = labelled.read_bytes()
    texts.write_text("By polymerase chain reaction (PCR).", "utf8")
    with pytest.raises(PelError, match="no acronym in .* use more texts"):
        learn_acronyms(bare_kb.path, [str(texts)], weak_labels=labelled)
    assert labelled.read_bytes() == before
