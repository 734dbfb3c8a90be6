"""Find the configs and the demo that come with the package.

They are in the folder ``project``: inside the package in a wheel (see ``setup.py``), next to it in a clone.
"""

import shutil
from pathlib import Path

from ..errors import PelError
from ..io.whole_files import whole_folder

_PACKAGE = Path(__file__).parents[1]
CONFIGS, DEMO = Path("configs"), Path("assets", "demo")


def shipped_folder() -> Path:
    """Return the folder with ``configs`` and ``assets/demo``; PelError if there is none."""
    for folder in (_PACKAGE / "project", _PACKAGE.parent / "project"):
        if (folder / CONFIGS).is_dir():
            return folder
    raise PelError(f"{_PACKAGE}: its configs and demo are missing", "install spacy_pel with pip")


def write_demo(folder: str | Path) -> None:
    """Copy the configs and the demo to a folder, for the quickstart; PelError if it is not empty."""
    folder = Path(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise PelError(f"{folder}: is not empty", "give a new folder")
    shipped = shipped_folder()
    with whole_folder(folder) as new:
        for part in (CONFIGS, DEMO):
            shutil.copytree(shipped / part, new / part)
