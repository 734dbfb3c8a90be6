"""Make the project's data of what "spacy project assets" has fetched."""

from pathlib import Path

import typer
from sources import corpora, vocabularies
from sources.recipe import follow
from wasabi import msg

from spacy_pel.errors import PelError


def main(assets: Path, data: Path) -> None:
    """Make the knowledge bases and corpora in the folder DATA of the downloads in ASSETS.

    What was made of the same downloads before is kept. A download that differs from the one that
    the figures of the docs were taken with is reported and used. Test documents go to
    DATA/held_out, where no workflow looks. After an error the other files are made all the same,
    and the exit code is 1.
    """
    errors, usable = [], 0
    for recipe in (*corpora.RECIPES, *vocabularies.RECIPES):
        try:
            made = follow(recipe, assets, data)
        except PelError as error:
            errors.append(error)
            msg.fail(str(error))
            continue
        usable += made.state != "absent"
        if made.state == "absent":
            msg.info(f"{recipe.output}: not fetched: {made.text}")
        else:
            msg.good(f"{recipe.output}: {made.state}{made.text and f': {made.text}'}")
    if not errors and not usable:
        msg.fail(
            f"nothing to prepare in {assets}", "Fetch it first: python -m spacy project assets"
        )
    raise typer.Exit(1 if errors or not usable else 0)


if __name__ == "__main__":
    typer.run(main)
