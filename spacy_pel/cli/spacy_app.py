"""``python -m spacy pel``: an entry point adds the commands of ``pel`` to spaCy's."""

from spacy.cli._util import app

from .apps import pel

app.add_typer(pel, name="pel")
