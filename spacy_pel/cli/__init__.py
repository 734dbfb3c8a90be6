"""``pel``: the commands. A command imports what it does when it runs: torch alone takes seconds."""

from . import (
    kb_build,
    kb_change,
    kb_show,
    pel_evaluate,
    pel_link,
    pel_serve,
    pel_start,
    pel_train,
)
from .apps import pel

__all__ = ["pel"]
