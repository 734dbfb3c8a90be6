"""Corpora in the layouts in which their authors publish them: folders that hold several splits.

To add one: a module beside this one, and a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import PelError
from .document_stream import DocumentStream
from .medmentions import MedMentionsSplit, medmentions_file
from .zeshel_mentions import ZeshelSplit, has_zeshel


class Layout(NamedTuple):
    """A layout of folders.

    Attributes:
        name: the corpus.
        is_in: whether a folder has this layout.
        opened: from the folder and the words that follow it to the documents.
        examples: such words, separated by colons, for messages.
    """

    name: str
    is_in: Callable[[Path], bool]
    opened: Callable[..., DocumentStream]
    examples: tuple[str, ...]


LAYOUTS = (
    Layout("MedMentions", medmentions_file, MedMentionsSplit, ("train", "dev", "test")),
    Layout("ZESHEL", has_zeshel, ZeshelSplit, ("val", "val:WORLD")),
)


def layout_of(folder: Path) -> Layout | None:
    """The layout that a folder has; None for any other folder."""
    return next((layout for layout in LAYOUTS if layout.is_in(folder)), None)


def open_split(folder: Path, words: Sequence[str]) -> DocumentStream:
    """The documents of a split, as FOLDER:SPLIT names it.

    Args:
        folder: the folder.
        words: what follows it: ["dev"], or ["val", "lego"].

    Raises:
        PelError: if the folder has none of the layouts, or the words name no split. What is wrong
            with the files is found when they are read.
    """
    layout = layout_of(folder)
    if layout is None:
        names = " nor ".join(layout.name for layout in LAYOUTS)
        raise PelError(
            f"{folder}: neither {names} is in this folder", "give one of them, or a file"
        )
    longest = max(example.count(":") + 1 for example in layout.examples)
    if not 1 <= len(words) <= longest:
        choices = " or ".join(f"{folder}:{example}" for example in layout.examples)
        raise PelError(f"{folder}: {layout.name} has several splits", f"write {choices}")
    return layout.opened(folder, *words)
