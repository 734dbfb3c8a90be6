"""Makes a data set of mentions whose entities the knowledge base lacks.

python -m papers.okb kb/umls okb --types paper --train MedMentions/st21pv:train --dev MedMentions/st21pv:dev
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from spacy_pel.kb import KnowledgeBase

from . import build_okb
from .okb_report import markdown

_CORPUS = (
    "file whose mentions have ids (.pubtator, .jsonl, ...), or FOLDER:SPLIT of MedMentions; may be "
    "repeated"
)


def main(
    kb: Annotated[Path, typer.Argument(metavar="KB", help="Folder of a KB")],
    out: Annotated[Path, typer.Argument(help="Folder to make")],
    types: Annotated[
        list[str],
        typer.Option(
            help="What to take out of the KB: a semantic type, by name or code; an entity and all "
            "below it, by name or id; or paper, for the paper's types. May be repeated"
        ),
    ],
    train: Annotated[list[str], typer.Option(help=f"Train: {_CORPUS}")],
    dev: Annotated[list[str] | None, typer.Option(help=f"Dev: {_CORPUS}")] = None,
    test: Annotated[list[str] | None, typer.Option(help=f"Test: {_CORPUS}")] = None,
    tolerance: Annotated[
        float,
        typer.Option(
            min=0,
            max=100,
            help="Percentage points by which the share seen in train may differ from that of the "
            "whole split",
        ),
    ] = 2.0,
    seed: Annotated[int, typer.Option(help="Seed for the choice of entities that stay")] = 0,
) -> None:
    """Make a data set for experiments with NIL.

    The entities of chosen types are taken out of the KB, so that their mentions become NIL. OUT gets
    the KB without these entities, to be embedded, and the corpora with NIL for their mentions.

    The share of entities and of mentions that are seen in train should be the same for NIL as for
    the whole split. If it differs by more than --tolerance, some entities of the types stay in the
    KB, chosen at random. With --tolerance 100 all of them are taken out. OUT/table.md has the
    counts of the paper's Table 7, and compares these shares.
    """
    given = {"train": train, "dev": dev, "test": test}
    report = build_okb(
        KnowledgeBase.open(kb),
        {split: corpora for split, corpora in given.items() if corpora},
        out,
        types,
        tolerance=tolerance / 100,
        seed=seed,
    )
    _print(report, out)


def _print(report: dict[str, Any], out: Path) -> None:
    print(markdown(report))
    for warning in report["warnings"]:
        print(f"Warning: {warning}")
    entities = report["entities"]
    if entities["kept_in_line"]:
        print(
            f"{entities['kept_in_line']:,} of {entities['of_types']:,} entities of the types stay "
            "in the KB, so that the shares seen in train are those of the whole split"
        )
    print(
        f"Took {entities['taken_out']:,} of {report['kb_entities']['before']:,} entities out: {out}"
    )
    print(f"To link to it, embed it: python -m spacy pel kb embed {out / 'kb'} PIPELINE")


if __name__ == "__main__":
    typer.run(main)
