"""``pel mentions``: self-supervised mentions from a knowledge base and plain text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..documents.formats import suffixes
from ..jobs.document_blocks import OnError
from .apps import command, pel
from .progress_bar import counted
from .terminal import msg

if TYPE_CHECKING:
    from ..jobs.mine import MiningResult


@command(
    pel,
    "mentions",
    after_all="what is found is kept beside the output, and the same command goes on from there",
)
def mentions_cli(
    folder: Annotated[Path, typer.Argument(metavar="KB", help="Folder of the knowledge base")],
    texts: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT...",
            help=f"Files ({suffixes('input')}; also .gz), folders of such files, or FOLDER:SPLIT of "
            "MedMentions or ZESHEL",
        ),
    ],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="File to write (.parquet)")],
    aliases: Annotated[
        bool, typer.Option("--aliases", help="Look for aliases too, not only for preferred names")
    ] = False,
    per_entity: Annotated[int, typer.Option(min=1, help="Most mentions kept of an entity")] = 16,
    window: Annotated[
        int, typer.Option(min=0, help="Words and signs kept around a mention, half on each side")
    ] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Decides which mentions are kept")] = 0,
    from_: Annotated[
        str | None,
        typer.Option("--from", help="Format of the texts [default: from the files' names]"),
    ] = None,
    n_process: Annotated[int, typer.Option(min=1, help="Processes to use")] = 1,
    on_error: Annotated[
        OnError,
        typer.Option(
            help="What to do at a bad document: end the run, or report it and go on without it"
        ),
    ] = OnError.stop,
) -> None:
    """Find mentions of entities in plain text, to train a linker without annotations.

    A mention is a preferred name of one entity alone. Names that several entities have are passed
    over. Of each entity a random sample is kept. The output is a corpus like any other: a row has
    the text around one mention, and the entity's id. Where the texts are annotated, the command
    tells how many of its mentions are right.

    Texts are read as streams, among them the files of PubMed as they come (.xml.gz). After a crash
    or an interruption, run the same command again: it goes on where it was.

    \b
    Examples:
      python -m spacy pel mentions kb pubmed/ mentions.parquet --n-process 8
      python -m spacy pel mentions kb notes.txt articles.jsonl mentions.parquet --aliases
    """
    from spacy.lang.en.stop_words import STOP_WORDS

    from ..jobs.mine import mine_mentions
    from ..jobs.name_table import name_table
    from ..jobs.sampled_mentions import MentionSearch
    from ..kb import KnowledgeBase
    from .link_progress import LinkBar

    with KnowledgeBase.open(folder) as kb:
        entities = counted(kb, "Reading names", " entities")
        numbers = kb.numbers().tolist()
        names = name_table(entities, numbers, aliases=aliases, stop_words=STOP_WORDS)
        search = MentionSearch(kb, names, per_entity, window, seed, on_error)
        with LinkBar("Searching") as bar:
            mined = mine_mentions(
                search, texts, output, input_format=from_, n_process=n_process, progress=bar
            )
    _report(mined, output)


def _report(mined: MiningResult, output: Path) -> None:
    msg.good(
        f"{mined.kept:,} mentions of {mined.entities:,} entities, of {mined.found:,} found in "
        f"{mined.documents:,} documents: {output}"
    )
    if mined.judged:
        msg.info(
            f"{mined.right / mined.judged:.1%} of the {mined.judged:,} that are annotated are right"
        )
    if mined.skipped:
        msg.warn(f"{len(mined.skipped):,} documents skipped")
