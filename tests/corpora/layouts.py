"""MedMentions and ZESHEL in small, in the layouts in which they are published; our own texts."""

import gzip
import json
from pathlib import Path

ASPIRIN = ("Aspirin", "T109,T121", "C1")
HEADACHE = ("headache", "T184", "C2")
ABSTRACTS = {  # by PMID: title, abstract, and mentions with TUIs and CUI
    "11": ("Aspirin for headache", "Rest helps.", [ASPIRIN, HEADACHE]),
    "12": ("Cats sneeze", "Aspirin is not for cats.", [("Cats", "T015", "C3"), ASPIRIN]),
    "13": ("Sneezing", "A headache may follow.", [HEADACHE]),
    "14": ("Rest", "Nothing else.", [("Rest", "T033", "C4")]),
}
PMIDS = {"trng": ["11", "14"], "dev": ["13"], "test": ["12"]}

WORLDS = {
    "garden": [
        ("G1", "Rose", "Rose The rose is a plant . A Tulip ( flower ) is not ."),
        ("G2", "Tulip ( flower )", "Tulip ( flower ) Grows from a bulb near the rose ."),
    ],
    "harbour": [
        ("H1", "Rope", "Rope Rope ties the ship to the quay ."),
        ("H2", "Ship", "Ship It sails ."),
        ("H3", "Quay", "Quay Where a ship lies ."),
    ],
}
# World, document, first and last token, text, and the document that is meant.
MENTIONS = {
    "train": [("garden", "G1", 8, 11, "Tulip ( flower )", "G2")],
    "test": [
        ("harbour", "H1", 4, 4, "ship", "H2"),
        ("garden", "G2", 10, 10, "rose", "G1"),
        ("harbour", "H3", 3, 3, "ship", "H2"),
        ("harbour", "H1", 7, 7, "quay", "H3"),
    ],
}


def write_medmentions(folder: Path) -> Path:
    """``full/data`` with corpus and lists, ``st21pv/data`` with the corpus alone, not packed."""
    text = "".join(_pubtator(pmid, *rest) for pmid, rest in ABSTRACTS.items())
    for name in ("full", "st21pv"):
        (folder / name / "data").mkdir(parents=True)
    full = folder / "full" / "data"
    with gzip.open(full / "corpus_pubtator.txt.gz", "wt", encoding="utf8") as file:
        file.write(text)
    (folder / "st21pv" / "data" / "corpus_pubtator.txt").write_text(text, encoding="utf8")
    for split, pmids in {**PMIDS, "all": sorted(ABSTRACTS)}.items():
        (full / f"corpus_pubtator_pmids_{split}.txt").write_text("\n".join(pmids) + "\n")
    return folder


def write_zeshel(folder: Path) -> Path:
    """``documents/<world>.json`` and ``mentions/<split>.json``."""
    (folder / "documents").mkdir(parents=True)
    (folder / "mentions").mkdir()
    for world, documents in WORLDS.items():
        keys = ("document_id", "title", "text")
        write_json_lines(
            folder / "documents" / f"{world}.json", [dict(zip(keys, row)) for row in documents]
        )
    keys = ("corpus", "context_document_id", "start_index", "end_index", "text")
    for split, mentions in MENTIONS.items():
        records = [
            dict(zip((*keys, "label_document_id"), row), mention_id=f"M{n}", category="LOW_OVERLAP")
            for n, row in enumerate(mentions)
        ]
        write_json_lines(folder / "mentions" / f"{split}.json", records)
    return folder


def write_json_lines(path: Path, records: list[dict]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf8")


def _pubtator(pmid: str, title: str, abstract: str, mentions: list[tuple[str, str, str]]) -> str:
    text = f"{title} {abstract}"
    lines = [f"{pmid}|t|{title}", f"{pmid}|a|{abstract}"]
    for mention, tuis, cui in mentions:
        start = text.index(mention)
        lines.append(f"{pmid}\t{start}\t{start + len(mention)}\t{mention}\t{tuis}\tUMLS:{cui}")
    return "\n".join(lines) + "\n\n"
