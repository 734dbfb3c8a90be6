"""``python -m spacy pel``: the commands of ``pel``, added to spaCy's own through an entry point."""

from spacy.cli._util import app

from .apps import pel

app.add_typer(pel, name="pel")
