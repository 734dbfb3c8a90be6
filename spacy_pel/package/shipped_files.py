"""Files that come with the package: the configs to train with, and the demo.

A wheel has them in the package's folder ``project``, where ``setup.py`` puts them. In a clone they
stand in the folder ``project`` beside the package.
"""

import shutil
from pathlib import Path

from ..errors import PelError
from ..io.whole_files import whole_folder

_PACKAGE = Path(__file__).parents[1]
CONFIGS, DEMO = Path("configs"), Path("assets", "demo")


def shipped_folder() -> Path:
    """The folder with ``configs`` and ``assets/demo``; PelError if there is none."""
    for folder in (_PACKAGE / "project", _PACKAGE.parent / "project"):
        if (folder / CONFIGS).is_dir():
            return folder
    raise PelError(f"{_PACKAGE}: its configs and demo are missing", "install spacy_pel with pip")


def config_file(given: str) -> Path:
    """A config by its path, or by a name of ours: "mesh_document", "configs/mesh_document.cfg"."""
    if Path(given).is_file():
        return Path(given)
    configs = {path.stem: path for path in (shipped_folder() / CONFIGS).glob("*.cfg")}
    name = Path(given).stem
    if name not in configs or Path(given) not in (Path(name), CONFIGS / f"{name}.cfg"):
        names = ", ".join(sorted(configs))
        raise PelError(f"{given}: no such config", f"give the path of a file, or one of {names}")
    return configs[name]


def write_demo(folder: str | Path) -> None:
    """Copy the configs and the demo's data to a new or empty folder: the quickstart works there.

    PelError if there is something in the folder.
    """
    folder = Path(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise PelError(f"{folder}: there is something already", "give a new folder")
    shipped = shipped_folder()
    with whole_folder(folder) as new:
        for part in (CONFIGS, DEMO):
            shutil.copytree(shipped / part, new / part)
