"""``pel okb``: a data set of mentions whose entities are out of the knowledge base."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from ..kb import KnowledgeBase
from ..tasks.okb import build_okb
from ..tasks.okb.okb_report import markdown
from .apps import command, msg, pel

_CORPUS = (
    "file whose mentions have ids (.pubtator, .jsonl, ...), or FOLDER:SPLIT of MedMentions; may be "
    "repeated"
)


@command(pel, "okb")
def okb_cli(
    kb: Annotated[Path, typer.Argument(metavar="KB", help="Folder of a KB")],
    out: Annotated[Path, typer.Argument(help="Folder to make")],
    types: Annotated[
        list[str],
        typer.Option(
            help="Types to take out of the KB: a semantic type by name or code, an entity with all "
            "below it, or paper, for the paper's; may be repeated"
        ),
    ],
    train: Annotated[list[str], typer.Option(help=f"Train: {_CORPUS}")],
    dev: Annotated[list[str] | None, typer.Option(help="Dev, likewise")] = None,
    test: Annotated[list[str] | None, typer.Option(help="Test, likewise")] = None,
    tolerance: Annotated[
        float,
        typer.Option(
            min=0,
            max=100,
            help="Points by which the share seen in train may differ from that of the whole",
        ),
    ] = 2.0,
    seed: Annotated[int, typer.Option(help="Of the choice of entities that stay for it")] = 0,
) -> None:
    """Take the entities of chosen types out of a KB.

    For experiments with NIL: OUT gets the corpora, where mentions of these entities are NIL, and
    the KB without them, to be embedded. Where the share of entities or of mentions seen in train
    would differ from that of the whole split, some entities of the types stay in the KB, chosen at
    random; --tolerance 100 takes all of them out. OUT/table.md tells what there is to take out, as
    the paper's Table 7 does, and how like the whole it is.

    \b
    Example:
      python -m spacy pel okb kb/umls okb --types paper --train MedMentions/st21pv:train
        --dev MedMentions/st21pv:dev --test MedMentions/st21pv:test
      python -m spacy pel okb kb/mesh okb --types "Nervous System Diseases" --train train.pubtator
        --dev dev.pubtator
    """
    # Imported here: spaCy takes a second, and imports this module for all of its commands.
    from ..corpora.document_corpus import open_corpus

    given = {"train": train, "dev": dev, "test": test}
    splits = {
        name: [open_corpus(corpus) for corpus in corpora]
        for name, corpora in given.items()
        if corpora
    }
    report = build_okb(
        KnowledgeBase.open(kb),
        splits,
        out,
        types,
        tolerance=tolerance / 100,
        seed=seed,
        progress=_shown,
    )
    typer.echo(markdown(report))
    for warning in report["warnings"]:
        msg.warn(warning)
    entities = report["entities"]
    if entities["kept_in_line"]:
        msg.info(
            f"{entities['kept_in_line']:,} of {entities['of_types']:,} entities of the types stay "
            "in the KB, so that the shares seen in train are those of the whole"
        )
    msg.good(
        f"Took {entities['taken_out']:,} of {report['kb_entities']['before']:,} entities out: {out}"
    )
    msg.text(f"To link to it, embed it: python -m spacy pel kb embed {out / 'kb'} PIPELINE")


def _shown(items: Iterable, what: str) -> Iterable:
    from tqdm import tqdm

    return tqdm(items, desc=what, unit="")
