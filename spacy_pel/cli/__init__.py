"""``python -m spacy pel``: the commands, added to spaCy's own through an entry point."""

from spacy.cli._util import app

from . import (  # noqa: F401  (add commands)
    kb_build,
    kb_change,
    kb_embed,
    kb_fetch,
    kb_learn,
    kb_reduce,
    kb_show,
    pel_assemble,
    pel_calibrate,
    pel_doctor,
    pel_evaluate,
    pel_link,
    pel_macro,
    pel_okb,
    pel_serve,
    pel_train,
)
from .apps import pel

app.add_typer(pel, name="pel")

__all__ = ["pel"]
