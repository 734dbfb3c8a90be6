"""Where a component, and a saved pipeline, finds its knowledge base.

A pipeline refers to its KB and does not copy it. Two paths of the KB are saved: the absolute one,
and the one relative to the pipeline, so that both can be moved together. A KB inside the
component's own folder, where ``pel assemble`` puts it, is preferred to both.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..kb.old_form import converted
from ..kb.settings import is_old_form
from .saving import Saved, SavedFile, content

# The folder of a KB inside the pipeline, and the file that points to one outside of it.
KB_FOLDER, KB_REFERENCE = "kb", "kb.json"


class KBReference:
    """The knowledge base of a component, which is opened when it is first needed.

    Attributes:
        path: The absolute path of the folder, which stays right when the program changes its
            working folder; None: there is no KB.
        configured: The folder that the config names, if it does. It is saved, because the config may
            name another one when the component is loaded.
    """

    def __init__(self, name: str, factory: str, configured: str | None):
        self._name = name
        self._factory = factory
        self._opened: KnowledgeBase | None = None
        self.configured = configured
        self.path = str(Path(configured).absolute()) if configured else None

    @property
    def kb(self) -> KnowledgeBase:
        """The knowledge base, opened; PelError if there is none."""
        if self._opened is None:
            if self.path is None:
                raise PelError(
                    f'"{self._name}" has no knowledge base',
                    f'build one with "python -m spacy pel kb '
                    f'build SOURCE KB" and give its folder: nlp.add_pipe("{self._factory}", '
                    'config={"kb": "KB"}) or the component\'s set_kb("KB")',
                )
            self._opened = _opened(Path(self.path))
        return self._opened

    def set(self, path: str | os.PathLike) -> None:
        """Use the KB of another folder from now on; PelError if there is none in it."""
        self._opened = _opened(Path(path))
        self.path = str(Path(path).absolute())

    def saved_file(self) -> SavedFile:
        """How the place of the KB is saved."""
        return SavedFile(
            lambda file: json.dumps(reference_data(self.path, self.configured, file)).encode(),
            self._load,
            missing=lambda: None,  # it was excluded when it was saved: the config names the KB
        )

    def _load(self, saved: Saved) -> None:
        """Use the KB that was saved, unless the config now names another one."""
        reference = json.loads(content(saved))
        if self.configured not in (None, reference["configured"]):
            return
        self.configured = reference["configured"]
        absolute, relative = reference["absolute"], reference["relative"]
        folders: list[Path] = []
        if isinstance(saved, Path):
            folders = [saved.parent / KB_FOLDER, *([saved.parent / relative] if relative else [])]
        folders += [Path(absolute)] if absolute else []
        path = next((str(folder.resolve()) for folder in folders if folder.is_dir()), absolute)
        if path is not None:
            self.path, self._opened = path, None


def _opened(folder: Path) -> KnowledgeBase:
    """The KB of a folder. One that an earlier release packaged is first copied to a cache."""
    packaged = folder.name == KB_FOLDER and (folder.parent.parent / "meta.json").is_file()
    return KnowledgeBase.open(converted(folder) if packaged and is_old_form(folder) else folder)


def reference_data(
    kb: str | None, configured: str | None, file: Path | None = None
) -> dict[str, str | None]:
    """What is saved about a KB: the folder in use, seen from the file it is saved in, if any."""
    absolute = str(Path(kb).absolute()) if kb else None
    relative = os.path.relpath(absolute, file.absolute().parent) if absolute and file else None
    return {"absolute": absolute, "relative": relative, "configured": configured}


def kb_reference_of(pipe: Any) -> KBReference | None:
    """The reference of a component to its KB; None if the component has none."""
    reference = getattr(pipe, "kb_reference", None)
    return reference if isinstance(reference, KBReference) else None
