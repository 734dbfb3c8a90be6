"""``python -m spacy pel``: the commands, added to spaCy's own through an entry point."""

from spacy.cli._util import app

from . import (  # noqa: F401  (add commands)
    assemble,
    calibrate,
    doctor,
    evaluate,
    kb_build,
    kb_change,
    kb_embed,
    kb_learn,
    kb_reduce,
    kb_show,
    link,
    macro,
    okb,
    serve,
    train,
)
from .apps import pel

app.add_typer(pel, name="pel")

__all__ = ["pel"]
