"""A corpus that a linker can be calibrated on."""

from collections.abc import Iterable
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc

TEXT = "Aspirin relieves headache and MS is not measured in the kidney of mice."
MENTIONS = [  # two in the KB whose best candidate is right, one where it is not, two NIL
    ("Aspirin", "C05"),
    ("headache", "C06"),
    ("MS", "C02"),
    ("kidney", "C98"),
    ("measured", "-1"),
]


def pubtator(mentions: Iterable[tuple[str, str]], text: str = TEXT) -> str:
    """A text with mentions and their ids, each where it first stands."""
    lines = [f"1|t|{text}", "1|a|"]
    for mention, id in mentions:
        start = text.index(mention)
        lines.append(f"1\t{start}\t{start + len(mention)}\t{mention}\tTERM\t{id}")
    return "\n".join(lines) + "\n"


def with_mentions(nlp: Language, mentions: Iterable[str] = dict(MENTIONS), text: str = TEXT) -> Doc:
    doc = nlp.make_doc(text)
    places = [(text.index(mention), text.index(mention) + len(mention)) for mention in mentions]
    doc.ents = [doc.char_span(*place, label="TERM") for place in places]
    return doc


def write_corpus(tiny_nlp: Language, path: Path) -> Path:
    """Write MENTIONS, the first and the third with the ids that make the linker right, and wrong."""
    golds = dict(MENTIONS)
    doc = tiny_nlp.get_pipe("proxy_linker")(with_mentions(tiny_nlp, golds))
    best = {ent.text: ent._.kb_candidates for ent in doc.ents}
    golds["Aspirin"], golds["headache"] = best["Aspirin"][0]["id"], best["headache"][0]["id"]
    golds["MS"] = best["MS"][1]["id"]
    path.write_text(pubtator(golds.items()), encoding="utf8")
    return path


def write_repeated_corpus(tiny_nlp: Language, folder: Path) -> Path:
    """Write the corpus four times into one file: each mention has others that mean the same."""
    one = write_corpus(tiny_nlp, folder / "one.pubtator").read_text("utf8")
    path = folder / "dev.pubtator"
    texts = [one.replace("\n1", f"\n{n}").replace("1|t", f"{n}|t", 1) for n in range(1, 5)]
    path.write_text("\n".join(texts), encoding="utf8")
    return path
