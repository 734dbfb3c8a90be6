"""What is made of which downloads, and whether it has to be made again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from spacy_pel.errors import PelError
from spacy_pel.system.whole_files import whole_file

FETCH = "python -m spacy project assets"
FETCH_EXTRA = f"{FETCH} --extra"
RECORD = "sources.json"
_BLOCK = 1 << 20


class Recipe(NamedTuple):
    """A file of the project's data, and the downloads that it is made of.

    Attributes:
        output: The file, in the folder of the data.
        inputs: The downloads, in the folder of the assets. A pattern stands for one file.
        make: Makes the file, given the paths of the output and of the inputs. It returns what the
            file holds, for messages. It raises PelError for a download that cannot be used.
        fetch: The command that fetches the downloads.
    """

    output: str
    inputs: tuple[str, ...]
    make: Callable[..., str]
    fetch: str = FETCH


class Made(NamedTuple):
    """What became of a recipe.

    Attributes:
        state: "made"; "kept", as it was made of these downloads before; "present", as it is not
            ours to replace; or "absent".
        text: What the file holds, or how to get it.
    """

    state: str
    text: str = ""


def follow(recipe: Recipe, assets: Path, data: Path) -> Made:
    """Make the file of a recipe, unless it was made of the same downloads before.

    Raises:
        PelError: Some of the downloads are missing or damaged, or the file cannot be made of them.
    """
    found = {name: _input(assets, name) for name in recipe.inputs}
    missing = [str(assets / name) for name, path in found.items() if path is None]
    output = data / recipe.output
    recorded = _recorded(data)
    if output.is_file() and recipe.output not in recorded:
        return Made("present")
    if len(missing) == len(found):
        return Made("present") if output.is_file() else Made("absent", recipe.fetch)
    if missing:
        raise PelError(
            f"{recipe.output}: needs {' and '.join(missing)}",
            f"fetch it: {recipe.fetch}; or put it there yourself",
        )
    paths = [path for path in found.values() if path is not None]
    digests = {path.relative_to(assets).as_posix(): sha256(path) for path in paths}
    before = recorded.get(recipe.output, {})
    if output.is_file() and before.get("made_of") == digests:
        return Made("kept", before["holds"])
    try:
        holds = recipe.make(output, *paths)
    except PelError as error:  # a download that was cut off counts as fetched until it is deleted
        again = f"to fetch a file again, delete it, then run {recipe.fetch}"
        raise PelError(f"{recipe.output}: {error.problem}", f"{error.remedy}; {again}") from error
    recorded[recipe.output] = {"holds": holds, "made_of": digests}
    with whole_file(data / RECORD) as file:
        json.dump(recorded, file, indent=1, sort_keys=True)
    return Made("made", holds)


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _input(assets: Path, name: str) -> Path | None:
    """The download of a name or pattern; None if it is missing."""
    found = sorted(assets.glob(name))
    if len(found) > 1:
        raise PelError(f"several files are {assets / name}", "keep one of them")
    return found[0] if found else None


def _recorded(data: Path) -> dict[str, Any]:
    """What the outputs in a folder were made of; empty if nobody knows."""
    try:
        return json.loads((data / RECORD).read_text("utf8"))
    except (OSError, ValueError):
        return {}
