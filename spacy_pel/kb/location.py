"""Where a KB is: in a folder that is given, or in a pipeline, by its folder or the name of its package."""

import json
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import PelError
from .store import KB_FILE

# The folder of a KB inside a component's own, and the file that points to one outside of it.
KB_FOLDER, KB_REFERENCE = "kb", "kb.json"
_LINKER = "proxy_linker"  # its KB is that of the pipeline, if several components have one
_INSTALLED = {"site-packages", "dist-packages"}


def kb_folder(given: str | Path) -> Path:
    """The folder of a KB, given that folder, a pipeline's folder, or the name of an installed package.

    What holds no KB is returned as it is: whoever opens it says what is missing.
    """
    folder = pipeline_at(given) or Path(given)
    if (folder / KB_FILE).is_file():
        return folder
    return next((kb for _, kb in referred_kbs(folder)), Path(given))


def kb_to_change(given: str | Path) -> Path:
    """``kb_folder`` for a command that changes the KB; PelError if it is in an installed package."""
    folder = kb_folder(given)
    if _INSTALLED & {*folder.absolute().parts}:
        problem = f"{given}: is an installed package, which stays as it was installed"
        copy = f"python -m spacy pel copy {given} my_pipeline"
        raise PelError(problem, f"copy it first ({copy}), and give my_pipeline")
    return folder


def pipeline_at(given: str | Path) -> Path | None:
    """The folder that is given, or that of an installed pipeline of this name; None if there is none."""
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
    """The components of a saved pipeline that have a KB, with its folder; the linker comes first."""
    files = pipeline.glob(f"*/{KB_REFERENCE}") if pipeline.is_dir() else ()
    for file in sorted(files, key=lambda file: (file.parent.name != _LINKER, file)):
        folder = referred_kb(file, json.loads(file.read_text("utf8")))
        if folder is not None and (folder / KB_FILE).is_file():
            yield file.parent.name, folder


def referred_kb(file: Path | None, reference: Mapping[str, Any]) -> Path | None:
    """The KB that a component refers to; None if it has none.

    One inside the component's own folder goes first, then one where it was as seen from ``file``, then
    one at its absolute path, which is also the answer if none is there.
    """
    absolute, relative = reference["absolute"], reference["relative"]
    beside = [KB_FOLDER, relative] if file else []
    folders = [file.parent / name for name in beside if file and name]
    folders += [Path(absolute)] if absolute else []
    there = next((folder.resolve() for folder in folders if folder.is_dir()), None)
    return there or (Path(absolute) if absolute else None)
