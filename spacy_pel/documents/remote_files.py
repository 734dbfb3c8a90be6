"""Files that are elsewhere, by their URL: s3://, gs://, https://, all that fsspec opens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from posixpath import basename, relpath
from typing import BinaryIO, NamedTuple

from ..errors import PelError


class RemoteFile(NamedTuple):
    """A file behind a URL.

    Attributes:
        url: The URL.
        size: Its bytes.
    """

    url: str
    size: int

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return basename(self.url)

    def opened(self) -> BinaryIO:
        """The file, open to be read."""
        import fsspec

        with _one_line_errors(self.url):
            return fsspec.open(self.url, "rb").open()


def is_url(given: str) -> bool:
    """Whether this is a URL, and no path."""
    return "://" in given


def remote_files(url: str) -> list[tuple[str, RemoteFile]]:
    """The file behind a URL, or all files in the folder behind it, by name.

    Returns:
        Pairs of a name and a file. The name is relative to the folder; that of a single file is the
        URL.

    Raises:
        PelError: The URL cannot be read, or there is nothing.
    """
    from fsspec.core import url_to_fs

    with _one_line_errors(url):
        system, root = url_to_fs(url)
        found = system.find(root, detail=True)
    files = [(path, int(found[path]["size"] or 0)) for path in sorted(found)]
    if not files:
        raise PelError(f"{url}: no such file", "check the URL")
    if [path for path, _ in files] == [root]:
        return [(url, RemoteFile(url, files[0][1]))]
    return [
        (relpath(path, root), RemoteFile(system.unstrip_protocol(path), size))
        for path, size in files
    ]


@contextmanager
def _one_line_errors(url: str) -> Iterator[None]:
    """Each kind of storage has errors of its own: they become a PelError."""
    try:
        yield
    except ImportError as error:
        raise PelError(f"{url}: {error}", "install what opens such URLs, see fsspec") from error
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise PelError(
            f"{url}: cannot be read ({reason})", "check the URL and your rights"
        ) from error
