"""Where a saved pipeline finds its knowledge base.

A pipeline refers to its KB and does not copy it. Two paths of the KB are saved: the absolute one,
and the one relative to the pipeline, so that both can be moved together. A KB inside the
component's own folder, where ``pel assemble`` puts it, is preferred to both.
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
    """Make what is saved about a KB.

    Args:
        kb: The folder in use.
        configured: The folder that the config names. It is saved because the config may name
            another one when the component is loaded.
        file: The file that the reference is saved in; None: it is saved as bytes.

    Returns:
        The "absolute" and the "relative" path of the folder in use, and the "configured" one.
    """
    absolute = Path(kb).absolute() if kb else None
    relative = os.path.relpath(absolute, file.absolute().parent) if absolute and file else None
    return {
        "absolute": str(absolute) if absolute else None,
        "relative": relative,
        "configured": configured,
    }


def found_kb(reference: dict[str, str | None], file: Path | None) -> str | None:
    """Find the KB that a reference leads to.

    Args:
        reference: What ``kb_reference`` made.
        file: The file that it was read from; None: it was read from bytes.

    Returns:
        The folder of the KB. If there is none any more, its absolute path when it was saved, or
        None.
    """
    absolute, relative = reference["absolute"], reference["relative"]
    folders = [Path(absolute)] if absolute else []
    if file and relative:
        folders.insert(0, file.parent / relative)
    if file:
        folders.insert(0, file.parent / KB_FOLDER)
    return next((str(folder.resolve()) for folder in folders if folder.is_dir()), absolute)


def _absolute(path: os.PathLike | str) -> str:
    """The absolute path, which stays right when the program changes its working folder."""
    return str(Path(path).absolute())


class KBPipe(SavedPipe):
    """A component that refers to a knowledge base, and opens it when it first needs it.

    Attributes:
        name: The component's name in the pipeline.
        factory: The name of its factory.
    """

    name: str
    factory: str

    def refer_to(self, kb: str | None) -> None:
        """Take the folder that the config names; opens nothing.

        Args:
            kb: The folder; None: the config names none.
        """
        self._configured_kb = kb
        self._kb_path = _absolute(kb) if kb else None
        self._kb: KnowledgeBase | None = None

    @property
    def kb(self) -> KnowledgeBase:
        """The knowledge base, opened.

        Raises:
            PelError: There is none.
        """
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
        """Use another knowledge base from now on.

        Args:
            path: Its folder.

        Raises:
            PelError: There is no knowledge base in it.
        """
        self._kb = KnowledgeBase.open(path)
        self._kb_path = _absolute(path)
        self.forget_kb()

    def forget_kb(self) -> None:
        """Drop what was made from the old KB."""
        raise NotImplementedError

    def kb_reference_file(self) -> SavedFile:
        """How the place of the KB is saved. The KB itself is not copied."""
        return SavedFile(
            lambda file: json.dumps(
                kb_reference(self._kb_path, self._configured_kb, file)
            ).encode(),
            self._set_kb_reference,
            missing=lambda: None,  # it was excluded when it was saved: the config names the KB
        )

    def _set_kb_reference(self, saved: Saved) -> None:
        """Use the KB that was saved, unless the config now names another one."""
        reference = json.loads(content(saved))
        if self._configured_kb not in (None, reference["configured"]):
            return
        self._configured_kb = reference["configured"]
        path = found_kb(reference, saved if isinstance(saved, Path) else None)
        if path is not None:
            self._kb_path, self._kb = path, None
            self.forget_kb()
