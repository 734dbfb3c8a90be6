"""Write a synthetic UMLS release: a META folder in Rich Release Format with invented contents.

    python benchmarks/kb_scale/generate.py META --cuis 3000000

3 million CUIs have about 10 million distinct English names: half of the CUIs have one or two, some
have hundreds. As in a full release, these stand in 15 million rows with suppressed names, repeated
names and other languages. The 127 semantic types have their real codes and tree numbers
(semantic_types.txt). 6 % of the CUIs have definitions, parents make shallow trees, and there are
retired ids. The same seed writes the same files.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

import numpy as np
import typer
from tqdm import tqdm
from words import base_names, foreign, variant, vocabulary, word_numbers

FILES = "MRCONSO MRSTY MRDEF MRREL MRCUI MRRANK MRSAB".split()
CHUNK = 50_000
RELEASE = "2999AA"
HERE = Path(__file__).parent
# The vocabularies, and how many of 1,000 atoms are theirs.
VOCABULARIES = dict(  # noqa: C408 (shorter)
    NCBI=190, SNOMEDCT_US=180, MSH=120, MTH=60, RXNORM=60, NCI=40, LNC=90, MEDCIN=60, GO=20,
    HGNC=20, OMIM=15, FMA=30, ICD10CM=25, MDR=15, CPT=5, ICD9CM=5, HPO=5, NDDF=10, UWDA=15,
    MMSL=15, NDFRT=5, ICD10=5, CHV=5, RCD=5,
)  # fmt: skip
TERM_TYPES = ("PT", "SY", "PN", "AB", "MH", "ET")
DEFINITION_SOURCES = ("NCI", "MSH", "CSP", "SNOMEDCT_US", "GO", "HPO", "FMA", "MSHSPA")
LANGUAGES = ("SPA", "FRE", "GER", "JPN", "POR", "CHI")
# Among the atoms: the share of suppressed ones, of other languages, and of names said before.
SUPPRESSED, FOREIGN, REPEATED = 0.08, 0.18, 0.08


def main(meta: Path, cuis: int = 3_000_000, seed: int = 0) -> None:
    """Write a release with a number of CUIS to the folder META."""
    meta.mkdir(parents=True, exist_ok=True)
    words = vocabulary(np.random.default_rng(seed))
    types = [line.split("|") for line in (HERE / "semantic_types.txt").read_text().splitlines()]
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(
                (meta / f"{name}.RRF").open("w", encoding="utf-8", newline="")
            )
            for name in FILES
        }
        _write_tables(files["MRRANK"], files["MRSAB"])
        progress = stack.enter_context(tqdm(total=cuis, unit=" CUIs", unit_scale=True))
        for first in range(0, cuis, CHUNK):
            numbers = range(first, min(first + CHUNK, cuis))
            random = np.random.default_rng((seed, first))
            bases = base_names(random, len(numbers), words)
            files["MRCONSO"].writelines(_atoms(random, numbers, bases, words))
            files["MRSTY"].writelines(_types(random, numbers, types))
            files["MRDEF"].writelines(_definitions(random, numbers, words))
            files["MRREL"].writelines(_relations(random, numbers))
            files["MRCUI"].writelines(_retired(random, numbers, cuis))
            progress.update(len(numbers))
    (meta / "release.dat").write_text(f"umls.release.name={RELEASE}\n")


def cui(number: int) -> str:
    """The CUI of a number; CUIs have gaps, as real ones have."""
    return f"C{3 * number + 5:07d}"


def _atoms(random, numbers: range, bases: list[list[str]], words: list[str]):
    """The rows of MRCONSO."""
    # One English name or two for half of the CUIs, 3.5 in the mean, and a long tail.
    counts = np.floor(np.exp(random.normal(0.86, 1.0, len(numbers)))).clip(1, 400).astype(int)
    counts += random.binomial(counts, SUPPRESSED + FOREIGN + REPEATED)
    n = int(counts.sum())
    kinds = random.integers(8, size=n).tolist()
    fates = random.random(n).tolist()
    extra = word_numbers(random, n, len(words))
    figures = random.integers(2, 1000, size=n).tolist()
    share = np.array(list(VOCABULARIES.values())) / sum(VOCABULARIES.values())
    sources = random.choice(list(VOCABULARIES), size=n, p=share).tolist()
    atom = 0
    for number, base, count in zip(numbers, bases, counts.tolist()):
        id = cui(number)
        before = name = " ".join(base)
        for place in range(count):
            fate, figure, sab = fates[atom], figures[atom], sources[atom]
            language, suppress = "ENG", "N"
            if place:
                if fate < SUPPRESSED:
                    suppress = "OEY"[figure % 3]
                if SUPPRESSED <= fate < SUPPRESSED + FOREIGN:
                    language = LANGUAGES[figure % len(LANGUAGES)]
                    name, sab = foreign(base, language, figure), f"MSH{language}"
                elif fate > 1 - REPEATED:
                    name = before
                else:
                    before = name = variant(base, kinds[atom], words[extra[atom]], figure)
            elif fate < 0.01:  # a concept without an English name that is valid
                suppress = "O"
            flags = "P", "PF", "Y"
            if place:
                flags = ("P", "VO", "N") if figure % 3 == 0 else ("S", "PF", "NY"[figure % 2])
            serial = f"{numbers.start}{atom:06d}"
            code = f"{sab[0]}{number % 100_000 + place}"
            yield (
                f"{id}|{language}|{flags[0]}|L{serial}|{flags[1]}|S{serial}|{flags[2]}|A{serial}||"
                f"M{number}|{code}|{sab}|{TERM_TYPES[figure % 6]}|{code}|{name}|{figure % 5}|"
                f"{suppress}|256|\n"
            )
            atom += 1


def _types(random, numbers: range, types: list[list[str]]):
    """The rows of MRSTY: one type, or two for every tenth CUI; a few types are frequent."""
    weights = 1 / np.arange(3, len(types) + 3)
    order = np.random.default_rng(1).permutation(len(types))
    chosen = order[random.choice(len(types), size=(len(numbers), 2), p=weights / weights.sum())]
    second = random.random(len(numbers)) < 0.1
    for number, pair, both in zip(numbers, chosen.tolist(), second.tolist()):
        for type in sorted(set(pair if both else pair[:1])):
            code, tree_number, name = types[type]
            yield f"{cui(number)}|{code}|{tree_number}|{name}|AT{number}{code[1:]}|256|\n"


def _definitions(random, numbers: range, words: list[str]):
    """The rows of MRDEF: a sentence or more for 6 % of the CUIs, of one source or several."""
    for number in np.array(numbers)[random.random(len(numbers)) < 0.06].tolist():
        for which in range(int(random.geometric(0.72))):
            drawn = word_numbers(random, int(random.integers(5, 60)), len(words))
            source = DEFINITION_SOURCES[int(random.integers(len(DEFINITION_SOURCES)))]
            text = " ".join(words[word] for word in drawn).capitalize()
            suppress = "N" if random.random() < 0.95 else "O"
            yield f"{cui(number)}|A{number}|AT{number}{which}||{source}|{text}.|{suppress}|256|\n"


def _relations(random, numbers: range):
    """The rows of MRREL: a parent from the tenth before it, seen from both ends, and others."""
    parents = (np.array(numbers) * random.uniform(0.05, 0.15, len(numbers))).astype(int).tolist()
    others = (np.array(numbers) * random.random(len(numbers))).astype(int).tolist()
    for number, parent, other in zip(numbers, parents, others):
        rows = [(other, number, "RO"), (number, other, "RO")]
        if parent != number:
            rows += [(number, parent, "PAR"), (parent, number, "CHD")]
        for one, two, relation in rows:
            yield (
                f"{cui(one)}|A{one}|AUI|{relation}|{cui(two)}|A{two}|AUI||R{one}||"
                "SNOMEDCT_US|SNOMEDCT_US|||N||\n"
            )


def _retired(random, numbers: range, cuis: int):
    """The rows of MRCUI: ids, never given out here, that are now another concept, or deleted."""
    for number in np.array(numbers)[random.random(len(numbers)) < 0.05].tolist():
        old = f"C{3 * number + 6:07d}"
        relation, now = ("DEL", "") if number % 10 == 0 else ("SY", cui(number))
        yield f"{old}|2998AB|{relation}|||{now}|{'Y' if now else ''}|\n"


def _write_tables(ranks: TextIO, vocabularies: TextIO) -> None:
    """MRRANK and MRSAB."""
    pairs = [(source, type) for source in VOCABULARIES for type in TERM_TYPES]
    for rank, (source, type) in zip(range(len(pairs), 0, -1), pairs):
        ranks.write(f"{rank:04d}|{source}|{type}|N|\n")
    languages = dict.fromkeys((*VOCABULARIES, *DEFINITION_SOURCES), "ENG")
    languages.update({f"MSH{language}": language for language in LANGUAGES})
    for source, language in languages.items():
        vocabularies.write(
            f"C1||{source}2999|{source}|Invented|{source}||||{RELEASE}||||0|1|1||||{language}|"
            "UTF-8|Y|Y|||\n"
        )


if __name__ == "__main__":
    typer.run(main)
