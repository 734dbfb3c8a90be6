"""What is made of which downloads, and whether it has to be made again."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from wasabi import msg

from spacy_pel.errors import PelError
from spacy_pel.system.whole_files import whole_file

FETCH = "python -m spacy project assets"
FETCH_EXTRA = f"{FETCH} --extra"
RECORD = "sources.json"


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


def follow(recipe: Recipe, assets: Path, data: Path) -> tuple[str, str]:
    """Make the file of a recipe, unless it was made of the same downloads before.

    Returns:
        "made"; "kept", as it was made of these downloads before; "present", as it is not ours to
        replace; or "not fetched". And what the file holds, or how to get it.

    Raises:
        PelError: Some of the downloads are missing or damaged, or the file cannot be made of them.
    """
    output, paths, missing = data / recipe.output, [], []
    for name in recipe.inputs:
        found = list(assets.glob(name))
        if len(found) > 1:
            raise PelError(f"several files are {assets / name}", "keep one of them")
        paths += found
        missing += [] if found else [str(assets / name)]
    try:
        recorded = json.loads((data / RECORD).read_text("utf8"))
    except (OSError, ValueError):  # nobody knows what the files there were made of
        recorded = {}
    if output.is_file() and (recipe.output not in recorded or not paths):
        return "present", ""
    if not paths:
        return "not fetched", recipe.fetch
    if missing:
        raise PelError(
            f"{recipe.output}: needs {' and '.join(missing)}",
            f"fetch it: {recipe.fetch}; or put it there yourself",
        )
    digests = {path.relative_to(assets).as_posix(): sha256(path) for path in paths}
    before = recorded.get(recipe.output, {})
    if output.is_file() and before.get("made_of") == digests:
        return "kept", before["holds"]
    try:
        holds = recipe.make(output, *paths)
    except PelError as error:  # a download that was cut off counts as fetched until it is deleted
        again = f"to fetch a file again, delete it, then run {recipe.fetch}"
        raise PelError(f"{recipe.output}: {error.problem}", f"{error.remedy}; {again}") from error
    recorded[recipe.output] = {"holds": holds, "made_of": digests}
    with whole_file(data / RECORD) as file:
        json.dump(recorded, file, indent=1, sort_keys=True)
    return "made", holds


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def report_change(source: Path, what: str, expected: object, found: object) -> None:
    """Warn if something about a download is not as in the one that the docs' figures are of."""
    if str(expected) != str(found):
        msg.warn(f"{source} has changed: {what}: expected {expected}, found {found}")


def write_gzip(output: Path, parts: Iterable[bytes]) -> None:
    """Write a gzip file, whole or not at all, whose bytes depend on its contents alone."""
    with whole_file(output, "xb") as file:
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as zipped:
            zipped.writelines(parts)
