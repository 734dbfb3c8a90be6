"""Files that the libraries of others wrote or read. They are no dependency of the tests:

pip install bioc label-studio-sdk pandas
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spacy_pel.documents import open_documents

from .examples import linked, read, written

TEXT = "🧠 MS hurts, and RA"
LABELLING = """<View>
  <Labels name="label" toName="text"><Label value="Disease"/></Labels>
  <Text name="text" value="$text"/>
  <TextArea name="kb_id" toName="text" perRegion="true" editable="true" maxSubmissions="1"/>
</View>"""


def mentions(path: Path) -> list[tuple[str, str, tuple[str, ...]]]:
    """Text, label and ids of the mentions of the only document."""
    (raw,) = open_documents(str(path))
    return [(mention.text, mention.label, mention.ids) for mention in raw.document().mentions]


@pytest.mark.parametrize("suffix", [".xml", ".bioc.json"])
def test_bioc(tmp_path: Path, suffix: str) -> None:
    bioc = pytest.importorskip("bioc")
    from bioc import biocjson, biocxml

    annotation = bioc.BioCAnnotation()
    annotation.id, annotation.text = "1", "MS"
    annotation.infons = {"type": "Disease", "identifier": "MESH:D009103"}
    annotation.add_location(bioc.BioCLocation(TEXT.index("MS"), 2))
    passage = bioc.BioCPassage()
    passage.offset, passage.text = 0, TEXT
    passage.add_annotation(annotation)
    document, collection = bioc.BioCDocument(), bioc.BioCCollection()
    document.id = "1"
    document.add_passage(passage)
    collection.add_document(document)
    writer = biocxml if suffix == ".xml" else biocjson
    (tmp_path / f"x{suffix}").write_text(writer.dumps(collection), encoding="utf8")
    assert mentions(tmp_path / f"x{suffix}") == [("MS", "Disease", ("D009103",))]


def test_bioc_reads_what_is_written(tmp_path: Path) -> None:
    pytest.importorskip("bioc")
    from bioc import biocxml

    path = written([linked(TEXT, (2, 4, "Disease"))], tmp_path / "x.xml", "bioc")
    with open(path, encoding="utf8") as file:
        ((annotation,),) = (p.annotations for d in biocxml.load(file).documents for p in d.passages)
    assert (annotation.text, annotation.infons["identifier"]) == ("MS", "E0")


def test_label_studio_takes_what_is_written_and_is_read(tmp_path: Path) -> None:
    pytest.importorskip("label_studio_sdk")
    from label_studio_sdk.label_interface import LabelInterface

    doc = linked(TEXT, (2, 4, "Disease"), (16, 18, "Disease"))
    path = written([doc], tmp_path / "x.label-studio.json", "label-studio")
    (task,) = json.loads(path.read_text(encoding="utf8"))
    interface = LabelInterface(LABELLING)
    (prediction,) = task["predictions"]
    assert interface.validate_prediction(prediction)
    # Somebody accepts the prediction: that is an annotation.
    annotation = {"result": prediction["result"], "was_cancelled": False}
    assert interface.validate_annotation(annotation)
    exported = tmp_path / "export.json"
    exported.write_text(json.dumps([{"data": task["data"], "annotations": [annotation]}]))
    assert mentions(exported) == [("MS", "Disease", ("E0",)), ("RA", "Disease", ("E1",))]


def test_pandas(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"id": ["a"], "text": [f'{TEXT}, "quoted"\nand broken']})
    table.to_csv(tmp_path / "x.csv", index=False)
    table.to_json(tmp_path / "x.jsonl", orient="records", lines=True)
    for path in tmp_path.iterdir():
        assert [doc.text for doc in read(path)] == table["text"].tolist()
