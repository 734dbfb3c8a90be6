from collections.abc import Callable
from pathlib import Path

import pytest

from spacy_pel.corpora.document import Document, Mention, Passage
from spacy_pel.corpora.document_corpus import make_document_corpus
from spacy_pel.corpora.formats.pubtator import pubtator_text

TWO_DOCUMENTS = """\
1|t|Lung cancer.
1|a|It hurts.
1\t0\t11\tLung cancer\tDisease\tMESH:D008175
1\t16\t21\thurts\tSymptom\t-1
1\tCID\tD000001\tD008175

2|t|Flu
2|a|
2\t0\t3\tFlu\tDisease\tD007251
"""


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], list[Document]]:
    """Reads the content of a file."""

    def read_content(content: str) -> list[Document]:
        path = tmp_path / "corpus.pubtator"
        path.write_bytes(content.encode())
        return list(make_document_corpus(path).documents())

    return read_content


TITLE, ABSTRACT = {"type": "title"}, {"type": "abstract"}
LUNG = (
    Mention(0, 11, "Lung cancer", "Disease", ("D008175",)),
    Mention(16, 21, "hurts", "Symptom", ()),
)
FLU = (Mention(0, 3, "Flu", "Disease", ("D007251",)),)
EXPECTED = [
    Document(
        "Lung cancer. It hurts.", "1", LUNG, (Passage(0, 12, TITLE), Passage(13, 22, ABSTRACT))
    ),
    Document("Flu ", "2", FLU, (Passage(0, 3, TITLE), Passage(4, 4, ABSTRACT))),
]


@pytest.mark.parametrize(
    "content",
    [
        TWO_DOCUMENTS,
        TWO_DOCUMENTS.replace("\n", "\r\n"),
        TWO_DOCUMENTS.replace("\n\n", "\n"),
        "\ufeff" + TWO_DOCUMENTS,
        "\n\n" + TWO_DOCUMENTS.rstrip("\n"),
        TWO_DOCUMENTS.replace("1\tCID\tD000001\tD008175", "1\tIs_a\tD1\tD2\tNovel"),
        TWO_DOCUMENTS.replace("Symptom\t-1", "Symptom\t"),
        TWO_DOCUMENTS.replace("D007251", "D007251\tinfluenza|flu"),
        TWO_DOCUMENTS.replace("\tFlu\t", "\tFlu  \t"),
    ],
)
def test_documents(read, content):
    assert read(content) == EXPECTED


def test_offsets_count_characters_over_title_and_abstract(read):
    content = "7|t|Na\u00efve \U0001f600|x\n7|a|a\u2028|t|b\n7\t10\t14\ta\u2028|t\tT\tC1\n"
    (document,) = read(content)
    assert document.text == "Na\u00efve \U0001f600|x a\u2028|t|b"
    assert document.mentions[0].text == "a\u2028|t"


def test_title_or_abstract_alone(read):
    content = "1|t|Flu\n1\t0\t3\tFlu\tD\tC1\n\n2|a|Flu\n"
    first, second = read(content)
    assert [(d.id, d.text) for d in (first, second)] == [("1", "Flu"), ("2", "Flu")]
    assert pubtator_text(first) == "1|t|Flu\n1\t0\t3\tFlu\tD\tC1\n\n"


@pytest.mark.parametrize(
    ("field", "ids"),
    [
        (" D008661", ("D008661",)),
        ("OMIM:312080+OMIM:312920|mesh:D1", ("312080", "312920", "D1")),
        ("3043,3040", ("3043", "3040")),  # BioRED
        ("MESH:D003924; OMIM:600807", ("D003924", "600807")),
        ("1,2-dichloroethane", ("1,2-dichloroethane",)),
        ("HGVS:c.1A>G;RS#:80357", ("HGVS:c.1A>G;RS#:80357",)),
        ("-1", ()),
        ("MESH:-1", ()),
    ],
)
def test_ids(read, field, ids):
    (document,) = read(f"1|t|Flu\n1|a|\n1\t0\t3\tFlu\tD\t{field}\n")
    assert document.mentions[0].ids == ids
