"""Measure what a pipeline finds in abstracts as reports, hasty notes, and PDFs would write them.

    pip install pyphen
    python benchmarks/text_forms.py PIPELINE CORPUS [--width 60]

The scores are those of ``raw_text.py``: on the given texts, in capitals, in lower case, and in lines that end
at blanks and at the hyphenation points of LibreOffice (pyphen).
"""

import re
from pathlib import Path

import pyphen
import typer
from raw_text import SCORES, Entities, Found, scores

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.metrics.linking import markdown_table
from spacy_pel.pipeline.pipelines import linker_of, load_pipeline

CASES = {"in capitals": str.upper, "in lower case": str.lower}
POINTS = pyphen.Pyphen(lang="en_US", left=2, right=3)
WORD = re.compile(r"([A-Za-z]+)[.,;:)]?")


def broken(text: str, width: int) -> tuple[str, list[int]]:
    """Break a text into lines; also return the place of each of its characters, and of its end."""
    lines, places, column = "", [], 0
    for match in re.finditer(r"\S+|\s+", text):
        word, cut = match[0], 0
        if not word.isspace() and column + len(word) > width:
            whole = WORD.fullmatch(word)
            points = POINTS.positions(whole[1]) if whole else []
            cut = max((point for point in points if column + point < width), default=0)
            if not cut and lines.endswith(" "):
                lines, column = lines[:-1] + "\n", 0
        hyphen = "-\n" if cut else ""
        places += [len(lines) + i + len(hyphen) * (i >= cut) for i in range(len(word))]
        lines += word[:cut] + hyphen + word[cut:]
        column = len(word) - cut if cut else column + len(word)
    return lines, [*places, len(lines)]


def main(pipeline: str, corpus: Path, width: int = 60) -> None:
    """Print the scores of PIPELINE on CORPUS, as given, in other cases, and in lines of WIDTH characters."""
    nlp = load_pipeline(pipeline)
    kb = linker_of(nlp).kb
    documents = list(open_corpus(corpus).documents())
    given = [document.text for document in documents]
    forms = {
        "as given": given,
        # Letters that have two capitals stay.
        **{
            name: ["".join(new if len(new := case(c)) == 1 else c for c in text) for text in given]
            for name, case in CASES.items()
        },
        f"lines of {width} characters": given,
    }
    rows = []
    for name, form in forms.items():
        columns = width if name.startswith("lines") else 1 << 30
        texts, places = zip(*(broken(text, columns) for text in form))
        found = []
        for doc, of_text in zip(nlp.pipe(texts), places):
            firsts = {place: i for i, place in enumerate(of_text)}
            ends = {place + 1: i + 1 for i, place in enumerate(of_text)}
            found.append(
                [
                    Found(
                        firsts.get(ent.start_char, -1),
                        ends.get(ent.end_char, -1),
                        ent.label_.capitalize(),
                        ent.kb_id_.replace("NIL", ""),
                    )
                    for ent in doc.ents
                ]
            )
        percents = [f"{100 * score:.1f}" for score in scores(Entities(kb, kb), documents, found)]
        rows.append([name, *percents])
        if columns == width:
            print(f"{sum(text.count('-' + chr(10)) for text in texts)} broken words")
    print(markdown_table(SCORES, rows))


if __name__ == "__main__":
    typer.run(main)
