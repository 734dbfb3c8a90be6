"""Locate the KB of a folder, a saved pipeline, or an installed pipeline package."""

import json
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import PelError
from .store import KB_FILE

# In a component's folder: the folder of its KB, and the file that refers to a KB elsewhere.
KB_FOLDER, KB_REFERENCE = "kb", "kb.json"
_LINKER = "proxy_linker"  # its KB is preferred if several components have one
_INSTALLED = {"site-packages", "dist-packages"}


def kb_folder(given: str | Path) -> Path:
    """Return the KB folder of a KB, a pipeline's folder, or an installed package.

    Without a KB, return the argument. Opening it raises the error.
    """
    folder = pipeline_at(given) or Path(given)
    if (folder / KB_FILE).is_file():
        return folder
    return next((kb for _, kb in referred_kbs(folder)), Path(given))


def kb_to_change(given: str | Path) -> Path:
    """Return ``kb_folder(given)`` for a command that changes the KB; PelError in an installed package."""
    folder = kb_folder(given)
    if _INSTALLED & {*folder.absolute().parts}:
        problem = f"{given}: is an installed package, which must not be changed"
        copy = f"python -m spacy pel copy {given} my_pipeline"
        raise PelError(problem, f"copy it first ({copy}), and give my_pipeline")
    return folder


def pipeline_at(given: str | Path) -> Path | None:
    """Return an existing folder, or that of the installed pipeline with this name, or None."""
    folder, name = Path(given), str(given)
    if folder.exists():
        return folder
    spec = find_spec(name) if name.isidentifier() else None
    for place in (spec.submodule_search_locations if spec else None) or ():
        meta = Path(place) / "meta.json"
        if meta.is_file():
            about = json.loads(meta.read_text("utf8"))
            return Path(place) / "{lang}_{name}-{version}".format(**about)
    return None


def referred_kbs(pipeline: Path) -> Iterator[tuple[str, Path]]:
    """Yield the components of a saved pipeline that have a KB, and its folder. The linker comes first."""
    files = pipeline.glob(f"*/{KB_REFERENCE}") if pipeline.is_dir() else ()
    for file in sorted(files, key=lambda file: (file.parent.name != _LINKER, file)):
        folder = referred_kb(file, json.loads(file.read_text("utf8")))
        if folder is not None and (folder / KB_FILE).is_file():
            yield file.parent.name, folder


def referred_kb(file: Path | None, reference: Mapping[str, Any]) -> Path | None:
    """Return the KB that a component refers to, or None.

    A KB in the component's folder is preferred, then one at the path relative to ``file``, then the
    absolute path, which is also returned if no folder exists.
    """
    absolute: str | None = reference["absolute"]
    relative: str | None = reference["relative"]
    if file:
        for name in filter(None, (KB_FOLDER, relative)):
            if (file.parent / name).is_dir():
                return (file.parent / name).resolve()
    if not absolute:
        return None
    return Path(absolute).resolve() if Path(absolute).is_dir() else Path(absolute)
