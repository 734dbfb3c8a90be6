"""Whether spaCy finds the names of ``registry.py``.

spaCy reads them from the entry points of the installed package, which ``pip`` writes: a name that
is added to ``registry.py`` is not found before the package is installed again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points

from catalogue import RegistryError

from ..errors import PelError
from ..registry import REGISTERED

INSTALL_AGAIN = "install the package again: pip install -e ."

_CHECK = (
    "check its spelling against spacy_pel/registry.py, and the version of spacy-pel that is "
    "installed"
)
_OUR_NAME = re.compile(r"'(spacy-pel\.[^']+)'")


def names_to_install() -> list[str]:
    """The names that differ between ``registry.py`` and the installed entry points, sorted."""
    registered = {
        (group, name, target)
        for group, names in REGISTERED.items()
        for name, target in names.items()
    }
    installed = {
        (group, point.name, point.value)
        for group in REGISTERED
        for point in entry_points(group=group)
        if point.value.startswith("spacy_pel.")
    }
    return sorted({name for _, name, _ in registered ^ installed})


@contextmanager
def unknown_names_explained(config: object) -> Iterator[None]:
    """Within the block, a name of ours that spaCy does not find is an error with a remedy.

    Args:
        config: The file or the pipeline that is read, for the error.

    Raises:
        PelError: In place of spaCy's E893, for a name that begins with "spacy-pel.".
    """
    try:
        yield
    except RegistryError as error:
        found = _OUR_NAME.search(str(error))
        if found is None:
            raise
        name = found[1]
        remedy = INSTALL_AGAIN if name in names_to_install() else _CHECK
        raise PelError(f'{config}: spaCy does not find "{name}"', remedy) from error
