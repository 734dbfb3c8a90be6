"""Make the documents that the package is calibrated on: dev splits, and acronyms, with the package's labels.

    python scripts/calibration_texts.py DATA kb/release DEV_LESSONS.pubtator OUT

DEV_LESSONS are of texts that the KB did not learn acronyms from: its counts would know the answers.
"""

from pathlib import Path

import typer

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.documents.document import Document, Mention
from spacy_pel.documents.pubtator import pubtator_text
from spacy_pel.kb import KnowledgeBase
from spacy_pel.system.whole_files import whole_file

CORPORA = ("bc5cdr", "ncbi_disease", "biored")
# The package's labels, by those of the corpora and by MeSH's types.
LABELS = {
    "Disease": ("SpecificDisease", "DiseaseClass", "Modifier", "CompositeMention")
    + ("DiseaseOrPhenotypicFeature", "Diseases"),
    "Chemical": ("ChemicalEntity", "Chemical or Drug"),
}
LABEL_OF = {other: label for label, own in LABELS.items() for other in (label, *own)}


def main(data: Path, kb: Path, lessons: Path, out: Path) -> None:
    """Write a PubTator file for each corpus of DATA, and one of the lessons, to the folder OUT."""
    base = KnowledgeBase.open(kb)
    files = {name: data / "corpora" / name / "dev.pubtator.txt.gz" for name in CORPORA}
    for name, path in (files | {"acronyms": lessons}).items():
        documents = [labelled(document, base) for document in open_corpus(path).documents()]
        kept = [document for document in documents if document.mentions]
        out.mkdir(parents=True, exist_ok=True)
        with whole_file(out / f"{name}.pubtator") as file:
            file.writelines(map(pubtator_text, kept))
        print(f"{out / name}.pubtator: {len(kept):,} documents")


def labelled(document: Document, kb: KnowledgeBase) -> Document:
    """A document with the mentions of diseases and chemicals, and their ids of today."""
    mentions = []
    for mention in document.mentions:
        ids = today(mention, document.text, kb)
        known = [mention.label]
        if mention.label == "Acronym":
            known = [type for id in ids if id in kb for type in kb[id].types]
        labels = [LABEL_OF[each] for each in known if each in LABEL_OF]
        if labels:
            mentions.append(mention._replace(label=labels[0], ids=ids))
    return document._replace(mentions=tuple(mentions))


def today(mention: Mention, text: str, kb: KnowledgeBase) -> tuple[str, ...]:
    """The ids of a mention. If the KB has none, but one entity alone has these words as a name, its id.

    MeSH renames records: the corpora have C069541, and MeSH has D000069348, "Quetiapine Fumarate".
    """
    owners = kb.numbers_named(text[mention.start : mention.end])
    if any(id in kb for id in mention.ids) or not mention.ids or len(owners) != 1:
        return mention.ids
    [(id, _)] = kb.labels(owners)
    return (id,)


if __name__ == "__main__":
    typer.run(main)
