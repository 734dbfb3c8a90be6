"""Make the project's data of what "spacy project assets" has fetched."""

from pathlib import Path

import corpora
import typer
import vocabularies
from recipe import FETCH, follow
from wasabi import msg

from spacy_pel.errors import PelError


def main(assets: Path, data: Path) -> None:
    """Make the knowledge bases and corpora in the folder DATA of the downloads in ASSETS.

    What was made of the same downloads before is kept. A download that differs from the one that
    the figures of the docs were taken with is reported and used. Test documents go to
    DATA/held_out, where no workflow looks. After an error the other files are made all the same,
    and the exit code is 1.
    """
    failed, usable = False, 0
    for recipe in (*corpora.RECIPES, *vocabularies.RECIPES):
        try:
            state, text = follow(recipe, assets, data)
        except PelError as error:
            failed = True
            msg.fail(str(error))
            continue
        is_there = state != "not fetched"
        usable += is_there
        (msg.good if is_there else msg.info)(f"{recipe.output}: {state}{text and f': {text}'}")
    if not failed and not usable:
        msg.fail(f"nothing to prepare in {assets}", f"Fetch it first: {FETCH}")
    raise typer.Exit(1 if failed or not usable else 0)


if __name__ == "__main__":
    typer.run(main)
