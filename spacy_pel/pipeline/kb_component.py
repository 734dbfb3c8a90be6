"""The base class of the package's components: their knowledge base, and saving and loading.

A pipeline refers to its KB and does not copy it. Two paths of the KB are saved: the absolute path, and
the path relative to the pipeline, so that both can be moved together. A KB inside the component's own
folder, where ``pel assemble`` puts it, takes precedence.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Lock, RLock
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import srsly

from ..errors import PelError
from ..io.whole_files import whole_file
from ..kb.knowledge_base import KnowledgeBase
from ..kb.location import KB_REFERENCE, referred_kb
from ..kb.store import KB_FILE
from ..kb.transaction import checked_settings
from .annotations import install_extensions

# The errors that damaged files cause in JSON, in msgpack, and where their values are read.
_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, RecursionError, MemoryError)

Saved = Path | bytes  # a saved file, or its bytes
T = TypeVar("T")
Component = TypeVar("Component", bound="KBComponent")


class SavedFile(NamedTuple):
    """The functions that write and read one file of a saved component.

    Attributes:
        dump: Returns the bytes of the file, or None for no file. It gets the path of the file, or None if
            the component is saved as bytes.
        load: Loads a ``Saved``, or None if an optional file is missing.
        optional: The file may be missing; otherwise that is an error.
    """

    dump: Callable[[Path | None], bytes | None]
    load: Callable[..., None]
    optional: bool = False


class BuildLock:
    """A reentrant lock whose copy is a new lock, so that its owner can be copied and pickled."""

    def __init__(self) -> None:
        self._lock = RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        return BuildLock, ()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class KBComponent:
    """A component with a knowledge base, which is opened when it is first needed.

    Several threads may use it. Each call reads one state of the KB, even if another thread sets or
    refreshes the KB meanwhile.

    A component is saved as files in a folder, or as bytes with the same contents. This base class precedes
    spaCy's, whose saving it replaces. ``exclude`` has the names of files, without their endings.

    Attributes:
        kb_path: The absolute path of the KB's folder; None without a KB.
        configured_kb: The folder in the config, or None. It is saved, to notice when a later config names
            another one.
    """

    name: str
    factory: str

    def refer_to_kb(self, configured: str | None) -> None:
        """Set the KB of the config without opening it."""
        install_extensions()
        self.configured_kb = configured
        self.kb_path = str(Path(configured).absolute()) if configured else None
        self._opened_kb: KnowledgeBase | None = None
        self._cached_for_kb: tuple[object, Any] = (None, None)  # the settings of a KB, a value
        self._building = BuildLock()

    @property
    def kb(self) -> KnowledgeBase:
        """The open knowledge base; PelError if there is none."""
        if (kb := self._opened_kb) is not None:
            return kb
        with self._building:
            if self._opened_kb is None:  # no other thread has opened it meanwhile
                if self.kb_path is None:
                    raise PelError(
                        f'"{self.name}" has no knowledge base',
                        'build one with "python -m spacy pel kb build SOURCE KB" and give its folder: '
                        f'nlp.add_pipe("{self.factory}", config={{"kb": "KB"}}) or the component\'s '
                        'set_kb("KB")',
                    )
                self._opened_kb = _opened(Path(self.kb_path))
            return self._opened_kb

    def set_kb(self, path: str | os.PathLike) -> None:
        """Use the KB of another folder from now on; PelError if there is none in it."""
        self.use_kb(KnowledgeBase.open(Path(path)))

    def use_kb(self, kb: KnowledgeBase) -> None:
        """Use a knowledge base that is open."""
        with self._building:
            self.kb_path, self._opened_kb = str(kb.path), kb

    def read_kb(self, read: Callable[[KnowledgeBase], T]) -> T:
        """Return the result of a function of the KB's current state.

        If another thread has refreshed the KB and that state is gone, the function gets the new state.
        """
        current = self.kb.snapshot()
        try:
            return read(current)
        except PelError:
            if self.kb.settings is current.settings:
                raise
        return read(self.kb.snapshot())

    def cached_for_kb(self, kb: KnowledgeBase, make: Callable[[KnowledgeBase], T]) -> T:
        """Return a value made from a snapshot of the KB. It is made once, until the KB changes.

        One thread makes it while others wait.
        """
        with self._building:
            if self._cached_for_kb[0] is not kb.settings:
                self._cached_for_kb = kb.settings, make(kb)
            value: T = self._cached_for_kb[1]
            return value

    def saved_files(self) -> dict[str, SavedFile]:
        """Return the files of the component by name, in the order of loading."""
        return {KB_REFERENCE: SavedFile(self._reference, self._load_reference, optional=True)}

    def to_disk(self, path: str | os.PathLike, *, exclude: Iterable[str] = ()) -> None:
        """Save the component in a folder."""
        for name, file in self._files(exclude):
            place = Path(path) / name
            data = file.dump(place)
            if data is None:
                place.unlink(missing_ok=True)  # from an earlier save
                continue
            # A new file replaces the old one whole: this pipeline may have mapped its weights from it.
            with whole_file(place, "xb") as opened:
                opened.write(data)

    def from_disk(
        self: Component, path: str | os.PathLike, *, exclude: Iterable[str] = ()
    ) -> Component:
        """Load the files of ``to_disk``; PelError if a required file is missing or a file is damaged."""
        files = ((name, Path(path) / name) for name, _ in self._files(exclude))
        return self._load({name: file for name, file in files if file.is_file()}, path, exclude)

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the component as bytes."""
        dumped = ((name, file.dump(None)) for name, file in self._files(exclude))
        packed: bytes = srsly.msgpack_dumps({name: d for name, d in dumped if d is not None})
        return packed

    def from_bytes(self: Component, data: bytes, *, exclude: Iterable[str] = ()) -> Component:
        """Load the bytes of ``to_bytes``; errors as for ``from_disk``."""
        return self._load(srsly.msgpack_loads(data), "these bytes", exclude)

    def _files(self, exclude: Iterable[str]) -> list[tuple[str, SavedFile]]:
        files = self.saved_files().items()
        return [(name, file) for name, file in files if name.split(".")[0] not in exclude]

    def _load(
        self: Component,
        saved: Mapping[str, Saved],
        where: str | os.PathLike,
        exclude: Iterable[str],
    ) -> Component:
        for name, file in self._files(exclude):
            if name not in saved and not file.optional:
                raise PelError(f'no "{name}" in {where}', "give the saved file, or save it again")
            try:
                file.load(saved.get(name))
            except OSError as error:
                file_name = os.fspath(error.filename or where)
                problem = f"{file_name}: cannot be read ({error.strerror or error})"
                raise PelError(problem, "check the path, and that you may read it") from error
            except PelError:
                raise
            except _DAMAGE as error:
                data = saved[name]
                place = str(data) if isinstance(data, Path) else f'"{name}" in {where}'
                problem = f"{place}: is damaged ({str(error) or type(error).__name__})"
                raise PelError(problem, "copy the pipeline again, or save it again") from error
        return self

    def _reference(self, file: Path | None) -> bytes:
        """Return the paths of the KB, also relative to the saved file if there is one."""
        kb, relative = self.kb_path, None
        if kb and file:
            relative = os.path.relpath(kb, file.absolute().parent)
        reference = {"absolute": kb, "relative": relative, "configured": self.configured_kb}
        return json.dumps(reference).encode()

    def _load_reference(self, saved: Saved | None) -> None:
        """Use the saved KB, unless the config now names another one."""
        if saved is None:  # excluded when the component was saved
            return
        reference = json.loads(content(saved))
        if self.configured_kb not in (None, reference["configured"]):
            return
        self.configured_kb = reference["configured"]
        path = referred_kb(saved if isinstance(saved, Path) else None, reference)
        if path is not None:
            self.kb_path, self._opened_kb = str(path), None


_in_use: WeakValueDictionary[tuple[str, int], KnowledgeBase] = WeakValueDictionary()
_opening = Lock()


def _opened(folder: Path) -> KnowledgeBase:
    """Open a KB, once for all components: others need not read again what one of them has read.

    If the KB has changed since another component opened it, that one keeps the former state.
    """
    file = folder / KB_FILE
    with _opening:
        inode = file.stat().st_ino if file.exists() else 0  # another one if it was built again
        place = str(folder), inode
        kb = _in_use.get(place)
        if kb is None or kb.settings != checked_settings(folder):
            kb = _in_use[place] = KnowledgeBase.open(folder)
        return kb


def content(saved: Saved) -> bytes:
    """Return the bytes of a saved file."""
    return saved if isinstance(saved, bytes) else saved.read_bytes()
