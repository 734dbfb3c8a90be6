"""Measure how many of fifty names a package finds and links in the spellings of PDF, HTML, Word, and phones.

    python benchmarks/spellings.py en_pel_mesh_sm

Each name is in a sentence, in plain letters and in each spelling. It counts if exactly its characters are
marked, with the id of the plain spelling.
"""

import re
import sys
import unicodedata

import spacy

NAMES = """
non-Hodgkin lymphoma; graft-versus-host disease; Niemann-Pick disease; Smith-Lemli-Opitz syndrome
Creutzfeldt-Jakob disease; Guillain-Barré syndrome; Sjögren's syndrome; Behçet syndrome
Ménière's disease; Sézary syndrome; Ménétrier disease; Schönlein-Henoch purpura; Löffler syndrome
Alzheimer's disease; Parkinson's disease; Crohn's disease; Hodgkin's disease; Graves' disease
Huntington's disease; Addison's disease; Cushing's syndrome; Wilson's disease; beta-thalassemia
alpha-thalassemia; alpha 1-antitrypsin deficiency; Charcot-Marie-Tooth disease
Wolff-Parkinson-White syndrome; Stevens-Johnson syndrome; Prader-Willi syndrome
Lesch-Nyhan syndrome; myocardial infarction; inflammation; asthma; fibromyalgia; influenza
pulmonary fibrosis; type 2 diabetes; cystic fibrosis; kidney failure; atrial fibrillation
fluorouracil; ifosfamide; fluoxetine; furosemide; ciprofloxacin; interferon-alpha; beta-carotene
vitamin B12; fluconazole; acetylsalicylic acid
"""  # fmt: skip
PLAIN = str.maketrans("éöçèë", "eocee")


def wide(name: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if c.isascii() and c.isalnum() else c for c in name)


def inside(sign: str):
    return lambda name: " ".join(w[:2] + sign + w[2:] if len(w) > 4 else w for w in name.split(" "))


def longest(change):
    def changed(name: str) -> str:
        word = max(re.findall("[A-Za-z]+", name), key=len)
        return name.replace(word, change(word)) if len(word) > 5 else name

    return changed


def greek(name: str) -> str:
    return name.replace("alpha", "α").replace("beta", "β")


SPELLINGS = {
    "non-breaking hyphen U+2011": lambda name: name.replace("-", "\u2011"),
    "hyphen U+2010": lambda name: name.replace("-", "\u2010"),
    "dash U+2013": lambda name: name.replace("-", "\u2013"),
    "minus U+2212": lambda name: name.replace("-", "\u2212"),
    "composed (NFC)": str,
    "decomposed (NFD)": lambda name: unicodedata.normalize("NFD", name),
    "ligatures": lambda name: name.replace("fi", "ﬁ").replace("fl", "ﬂ"),
    "soft hyphens": inside("\u00ad"),
    "hyphens at the ends of lines": inside("-\n"),
    "soft hyphens at the ends of lines": inside("\u00ad\n"),
    "zero-width space": inside("\u200b"),
    "zero-width joiner": inside("\u200d"),
    "byte order mark U+FEFF": inside("\ufeff"),
    "full width": wide,
    "no-break space": lambda name: name.replace(" ", "\u00a0"),
    "thin space": lambda name: name.replace(" ", "\u2009"),
    "apostrophe U+2019": lambda name: name.replace("'", "’"),
    "prime U+2032": lambda name: name.replace("'", "′"),
    "Greek letters": greek,
    "subscript digits": lambda name: name.translate(str.maketrans("012", "₀₁₂")),
    "two letters swapped": longest(lambda word: f"{word[:3]}{word[4]}{word[3]}{word[5:]}"),
    "a letter missing": longest(lambda word: word[:4] + word[5:]),
    "a letter twice": longest(lambda word: word[:4] + word[3:]),
    "all signs": lambda name: unicodedata.normalize(
        "NFD", inside("\u00ad")(greek(name)).replace("-", "\u2011").replace("'", "’")
    ),
}


def main() -> None:
    nlp = spacy.load(sys.argv[1])
    names = [name.strip() for line in NAMES.strip().splitlines() for name in line.split(";")]
    before, behind = "The patient had ", " or was treated with it last year."

    def links(spelled: list[str]) -> list[str | None]:
        docs = nlp.pipe(before + name + behind for name in spelled)
        places = [(len(before), len(before) + len(name)) for name in spelled]
        return [
            next((e._.kb_id for e in doc.ents if (e.start_char, e.end_char) == place), None)
            for doc, place in zip(docs, places)
        ]

    plain = links([name.translate(PLAIN) for name in names])
    print(f"plain letters: {sum(map(bool, plain))} of {len(names)} are found")
    for spelling, spell in SPELLINGS.items():
        spelled = list(map(spell, names))
        changed = [name != other.translate(PLAIN) for name, other in zip(spelled, names)]
        found = [id is not None and id == other for id, other in zip(links(spelled), plain)]
        missed = [ascii(name) for name, right in zip(spelled, found) if not right]
        print(f"{spelling}: {sum(found)} of {len(names)} ({sum(changed)} spelled so)", *missed)


if __name__ == "__main__":
    main()
