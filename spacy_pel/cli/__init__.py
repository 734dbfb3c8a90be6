"""``python -m spacy pel``: the commands, added to spaCy's own through an entry point."""

from spacy.cli._util import app

from . import assemble, evaluate, kb, link  # noqa: F401  (each adds its commands)
from .apps import pel

app.add_typer(pel, name="pel")

__all__ = ["pel"]
