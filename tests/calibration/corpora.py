"""Corpora that a linker can be evaluated and calibrated on."""

from pathlib import Path

from spacy.language import Language

from ..conftest import pubtator, with_mentions

# Alternatives, an alternative id (X3), an entity that the KB lacks, and NIL. The ruler, which would
# find "kidney" as well, has no say.
CORPUS = """\
1|t|Aspirin relieves headache and RA.
1|a|MS is not measured in the kidney.
1\t0\t7\tAspirin\tTERM\tC05
1\t17\t25\theadache\tTERM\tC99|C06
1\t30\t32\tRA\tTERM\tX3
1\t34\t36\tMS\tTERM\tC98
1\t44\t52\tmeasured\tTERM\t-1

"""

TEXT = "Aspirin relieves headache and MS is not measured in the kidney of mice."
MENTIONS = [  # to calibrate on: two in the KB whose best candidate is right, one where it is not, two NIL
    ("Aspirin", "C05"),
    ("headache", "C06"),
    ("MS", "C02"),
    ("kidney", "C98"),
    ("measured", "-1"),
]


def write_corpus(tiny_nlp: Language, path: Path) -> Path:
    """Write MENTIONS, the first and the third with the ids that make the linker right, and wrong."""
    golds = dict(MENTIONS)
    doc = tiny_nlp.get_pipe("proxy_linker")(with_mentions(tiny_nlp, TEXT, dict.fromkeys(golds, "")))
    best = {ent.text: ent._.kb_candidates for ent in doc.ents}
    golds["Aspirin"], golds["headache"] = best["Aspirin"][0]["id"], best["headache"][0]["id"]
    golds["MS"] = best["MS"][1]["id"]
    path.write_text(pubtator(TEXT, golds.items()), encoding="utf8")
    return path


def write_repeated_corpus(tiny_nlp: Language, folder: Path) -> Path:
    """Write the corpus four times into one file: each mention has others that mean the same."""
    one = write_corpus(tiny_nlp, folder / "one.pubtator").read_text("utf8")
    path = folder / "dev.pubtator"
    texts = [one.replace("\n1", f"\n{n}").replace("1|t", f"{n}|t", 1) for n in range(1, 5)]
    path.write_text("\n".join(texts), encoding="utf8")
    return path
