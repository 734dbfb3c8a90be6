"""Abstracts that nobody wrote: sentences with names of a KB, in PubMed's own XML.

    python benchmarks/abstracts.py PIPELINE FOLDER --files 4 --abstracts 1000

Writes FOLDER/pubmed0001.xml.gz and so on, each with that number of citations. The same arguments give
the same bytes. The names are the canonical names of the entities in the pipeline's KB; the sentences
are the ones below.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import typer

TITLES = (
    "{0} and the risk of {1}: a cohort study.",
    "Effect of {0} on {1} in adults.",
    "{0} as a marker of {1}.",
    "A randomised trial of {0} against {1}.",
)
SENTENCES = (
    "Little is known of {0} in people who have {1}.",
    "We followed {n} patients with {0} over {m} years.",
    "{0} was measured at the first visit and after {m} months.",
    "Those who were given {0} had less {1} than those who were given {2}.",
    "The odds of {0} fell by {m} % for each year of treatment with {1}.",
    "No patient with {0} developed {1} within {n} days.",
    "We found {0} in {n} of the samples, and {1} in {m}.",
    "Age, sex and {0} explained most of the difference.",
    "Our results suggest that {0} has a part in {1}.",
    "Further work should ask whether {0} changes the course of {1}.",
)


def citations(names: list[str], n: int, chance: random.Random) -> Iterator[tuple[str, str]]:
    """Titles and abstracts of five to eight sentences."""
    for _ in range(n):
        sentences = chance.sample(SENTENCES, chance.randint(5, 8))
        texts = [chance.choice(TITLES), *sentences]
        title, *abstract = (_filled(text, names, chance) for text in texts)
        yield title, " ".join(abstract)


def _filled(text: str, names: list[str], chance: random.Random) -> str:
    numbers = {"n": chance.randint(20, 900), "m": chance.randint(2, 19)}
    filled = text.format(*chance.sample(names, 3), **numbers)
    return filled[0].upper() + filled[1:]


def write_file(path: Path, names: list[str], first: int, n: int) -> None:
    """Write n citations whose PMIDs begin with ``first``; the file depends on these alone."""
    found = citations(names, n, random.Random(first))
    # A gzip header may hold a name and a time; this one holds neither.
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as file:
        file.write(b"<?xml version='1.0' encoding='utf-8'?>\n<PubmedArticleSet>\n")
        for pmid, (title, abstract) in enumerate(found, first):
            file.write(
                f"<PubmedArticle><MedlineCitation><PMID>{pmid}</PMID><Article><ArticleTitle>"
                f"{escape(title)}</ArticleTitle><Abstract><AbstractText>{escape(abstract)}"
                "</AbstractText></Abstract></Article></MedlineCitation></PubmedArticle>\n".encode()
            )
        file.write(b"</PubmedArticleSet>\n")


def names_of(pipeline: str) -> list[str]:
    """The canonical names of the KB of a pipeline, in alphabetical order."""
    from spacy_pel.pipeline.pipelines import linker_of, load_pipeline

    kb = linker_of(load_pipeline(pipeline)).kb
    return sorted({entity.canonical_name for entity in kb})


def write_abstracts(folder: Path, names: list[str], files: int, abstracts: int) -> None:
    """Write files with so many abstracts each."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        path = folder / f"pubmed{number + 1:04d}.xml.gz"
        write_file(path, names, 1 + number * abstracts, abstracts)


def main(pipeline: str, folder: Path, files: int = 4, abstracts: int = 1000) -> None:
    """Write FILES files of ABSTRACTS abstracts to FOLDER."""
    write_abstracts(folder, names_of(pipeline), files, abstracts)


if __name__ == "__main__":
    typer.run(main)
