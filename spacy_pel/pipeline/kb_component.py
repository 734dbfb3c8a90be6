"""What our components have in common: a knowledge base, and how they are saved.

A pipeline refers to its KB and does not copy it. Two paths of the KB are saved: the absolute one,
and the one relative to the pipeline, so that both can be moved together. A KB inside the
component's own folder, where ``pel assemble`` puts it, is preferred to both.
"""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import srsly

from ..errors import PelError
from ..io.whole_files import whole_file
from ..kb.knowledge_base import KnowledgeBase
from ..kb.location import KB_REFERENCE, referred_kb
from .annotations import install_extensions

# What a damaged file makes JSON, msgpack and those who read their values raise.
_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, RecursionError, MemoryError)

# What was saved: its file, or its bytes.
Saved = Path | bytes
T = TypeVar("T")


class SavedFile(NamedTuple):
    """One file of a saved component: how it is written and read."""

    # Gives the file's bytes; None: the component has nothing to write. It is given the path of the
    # file, or None if the component is saved as bytes.
    dump: Callable[[Path | None], bytes | None]
    load: Callable[..., None]  # takes what was saved, or if it is optional, None
    optional: bool = False  # whether it may be missing; else that is an error


class BuildLock:
    """A reentrant lock for what is made once. A copy of its owner has a lock of its own."""

    def __init__(self) -> None:
        self._lock = RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        return BuildLock, ()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()


class KBComponent:
    """A component with a knowledge base, which is opened when it is first needed.

    Several threads may use it at a time. Each reads one KB from the beginning of a call to its end,
    also if another thread sets or refreshes the KB meanwhile.

    It is saved as some files in a folder, or as the same in one string of bytes. As a base class it
    stands before spaCy's own, whose saving it replaces. In its methods ``exclude`` has the names of
    files that are left out, without their endings.

    Attributes:
        kb_path: The absolute path of the KB's folder, which stays right when the program changes
            its working folder; None: there is no KB.
        configured_kb: The folder that the config names, if it does. It is saved, because the config
            may name another one when the component is loaded.
    """

    name: str
    factory: str

    def refer_to_kb(self, configured: str | None) -> None:
        """Take the KB that the config names; opens nothing."""
        install_extensions()
        self.configured_kb = configured
        self.kb_path = str(Path(configured).absolute()) if configured else None
        self._opened_kb: KnowledgeBase | None = None
        self._cached_for_kb: tuple[object, Any] = (None, None)
        self._building = BuildLock()

    @property
    def kb(self) -> KnowledgeBase:
        """The knowledge base, opened; PelError if there is none."""
        with self._building:
            if self._opened_kb is None:
                if self.kb_path is None:
                    raise PelError(
                        f'"{self.name}" has no knowledge base',
                        f'build one with "python -m spacy pel kb '
                        f'build SOURCE KB" and give its folder: nlp.add_pipe("{self.factory}", '
                        'config={"kb": "KB"}) or the component\'s set_kb("KB")',
                    )
                self._opened_kb = KnowledgeBase.open(Path(self.kb_path))
            return self._opened_kb

    def set_kb(self, path: str | os.PathLike) -> None:
        """Use the KB of another folder from now on; PelError if there is none in it."""
        self.use_kb(KnowledgeBase.open(Path(path)))

    def use_kb(self, kb: KnowledgeBase) -> None:
        """Use a knowledge base that is open."""
        with self._building:
            self.kb_path, self._opened_kb = str(kb.path), kb

    def read_kb(self, read: Callable[[KnowledgeBase], T]) -> T:
        """Return what a function reads of the KB, which it is given as it is now.

        If that state is gone, and another thread has refreshed the KB, the new one is read.
        """
        now = self.kb.snapshot()
        try:
            return read(now)
        except PelError:
            if self.kb.settings is now.settings:
                raise
        return read(self.kb.snapshot())

    def cached_for_kb(self, kb: KnowledgeBase, make: Callable[[KnowledgeBase], T]) -> T:
        """Return what is made of a snapshot of the KB: at the first call, and when the KB is another one.

        One thread makes it, and the others wait.
        """
        with self._building:
            if self._cached_for_kb[0] is not kb.settings:
                self._cached_for_kb = kb.settings, make(kb)
            made: T = self._cached_for_kb[1]
            return made

    def saved_files(self) -> dict[str, SavedFile]:
        """The files of the component, by their names in its folder. They are loaded in this order."""
        return {KB_REFERENCE: SavedFile(self._reference, self._load_reference, optional=True)}

    def to_disk(self, path: str | os.PathLike, *, exclude: Iterable[str] = ()) -> None:
        """Save the component in a folder."""
        for name, file in self._files(exclude):
            place = Path(path) / name
            data = file.dump(place)
            if data is None:
                place.unlink(missing_ok=True)  # of a component saved before
                continue
            # A new file replaces an old one whole: the pipeline may have its weights mapped from it.
            with whole_file(place, "xb") as opened:
                opened.write(data)

    def from_disk(self, path: str | os.PathLike, *, exclude: Iterable[str] = ()):
        """Load what ``to_disk`` saved; PelError if a file is missing that every component has."""
        files = ((name, Path(path) / name) for name, _ in self._files(exclude))
        return self._load({name: file for name, file in files if file.is_file()}, path, exclude)

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The component as bytes."""
        dumped = ((name, file.dump(None)) for name, file in self._files(exclude))
        return srsly.msgpack_dumps({name: data for name, data in dumped if data is not None})

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()):
        """Load what ``to_bytes`` gave; errors as of ``from_disk``."""
        return self._load(srsly.msgpack_loads(data), "these bytes", exclude)

    def _files(self, exclude: Iterable[str]) -> list[tuple[str, SavedFile]]:
        files = self.saved_files().items()
        return [(name, file) for name, file in files if name.split(".")[0] not in exclude]

    def _load(self, saved: dict[str, Saved], where: object, exclude: Iterable[str]):
        for name, file in self._files(exclude):
            if name not in saved and not file.optional:
                raise PelError(f'no "{name}" in {where}', "give what was saved, or save it again")
            try:
                file.load(saved.get(name))
            except OSError as error:
                problem = f"{error.filename or where}: cannot be read ({error.strerror or error})"
                raise PelError(problem, "check the path, and that you may read it") from error
            except PelError:
                raise
            except _DAMAGE as error:
                place = saved[name] if isinstance(saved[name], Path) else f'"{name}" in {where}'
                problem = f"{place}: is damaged ({str(error) or type(error).__name__})"
                raise PelError(problem, "copy the pipeline again, or save it again") from error
        return self

    def _reference(self, file: Path | None) -> bytes:
        """What is saved about the KB: its folder, as it is seen from the file if there is one."""
        kb, relative = self.kb_path, None
        if kb and file:
            relative = os.path.relpath(kb, file.absolute().parent)
        reference = {"absolute": kb, "relative": relative, "configured": self.configured_kb}
        return json.dumps(reference).encode()

    def _load_reference(self, saved: Saved | None) -> None:
        """Use the KB that was saved, unless the config now names another one."""
        if saved is None:  # it was excluded when it was saved
            return
        reference = json.loads(content(saved))
        if self.configured_kb not in (None, reference["configured"]):
            return
        self.configured_kb = reference["configured"]
        path = referred_kb(saved if isinstance(saved, Path) else None, reference)
        if path is not None:
            self.kb_path, self._opened_kb = str(path), None


def content(saved: Saved) -> bytes:
    """The bytes that were saved."""
    return saved if isinstance(saved, bytes) else saved.read_bytes()
