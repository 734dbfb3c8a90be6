"""Where a saved pipeline finds its knowledge base.

A pipeline refers to its KB and does not copy it. What is saved is the KB's path, absolute and seen
from the pipeline, so that the two can be moved together; a KB inside the component's own folder,
where ``pel assemble`` puts it, goes before both.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from .saving import Saved, SavedFile, SavedPipe, content

# The folder of a KB inside the pipeline, and the file that points to one outside of it.
KB_FOLDER, KB_REFERENCE = "kb", "kb.json"


def kb_reference(
    kb: str | None, configured: str | None, file: Path | None = None
) -> dict[str, str | None]:
    """What is saved in ``file``, if there is one, of a KB.

    kb: the folder in use. configured: the one that the config named, to notice when the config
    names another one at loading.
    """
    absolute = Path(kb).absolute() if kb else None
    relative = os.path.relpath(absolute, file.absolute().parent) if absolute and file else None
    return {
        "absolute": str(absolute) if absolute else None,
        "relative": relative,
        "configured": configured,
    }


def found_kb(reference: dict[str, str | None], file: Path | None) -> str | None:
    """The folder of the KB that the reference, read from ``file``, leads to; None if to none."""
    absolute, relative = reference["absolute"], reference["relative"]
    folders = [Path(absolute)] if absolute else []
    if file and relative:
        folders.insert(0, file.parent / relative)
    if file:
        folders.insert(0, file.parent / KB_FOLDER)
    return next((str(folder.resolve()) for folder in folders if folder.is_dir()), absolute)


def _absolute(path: os.PathLike | str) -> str:
    """The path, to be the same wherever the program goes."""
    return str(Path(path).absolute())


class KBPipe(SavedPipe):
    """Of a component that refers to a knowledge base, and opens it when it first needs it."""

    name: str
    # The name of its factory.
    factory: str

    def refer_to(self, kb: str | None) -> None:
        """Take the folder that the config names; opens nothing."""
        self._configured_kb = kb
        self._kb_path = _absolute(kb) if kb else None
        self._kb: KnowledgeBase | None = None

    @property
    def kb(self) -> KnowledgeBase:
        """The knowledge base. Raises PelError, with the remedy, if there is none."""
        if self._kb is None:
            if self._kb_path is None:
                raise PelError(
                    f'"{self.name}" has no knowledge base',
                    f'build one with "python -m spacy pel kb '
                    f'build SOURCE KB" and give its folder: nlp.add_pipe("{self.factory}", '
                    'config={"kb": "KB"}) or the component\'s set_kb("KB")',
                )
            self._kb = KnowledgeBase.open(self._kb_path)
        return self._kb

    def set_kb(self, path: os.PathLike) -> None:
        """Use the knowledge base in this folder from now on.

        Raises PelError if there is no knowledge base in it.
        """
        self._kb = KnowledgeBase.open(path)
        self._kb_path = _absolute(path)
        self.forget_kb()

    def forget_kb(self) -> None:
        """Drop what was made of the KB before, since it is another one now."""
        raise NotImplementedError

    def kb_reference_file(self) -> SavedFile:
        """Where the KB is, to be saved. The KB itself is not copied."""
        return SavedFile(
            lambda file: json.dumps(
                kb_reference(self._kb_path, self._configured_kb, file)
            ).encode(),
            self._set_kb_reference,
            missing=lambda: None,  # left out when it was saved: the KB is the config's
        )

    def _set_kb_reference(self, saved: Saved) -> None:
        """Use the KB that was saved, but for one that the config names and did not then."""
        reference = json.loads(content(saved))
        if self._configured_kb not in (None, reference["configured"]):
            return
        self._configured_kb = reference["configured"]
        path = found_kb(reference, saved if isinstance(saved, Path) else None)
        if path is not None:
            self._kb_path, self._kb = path, None
            self.forget_kb()
