"""DocBin, spaCy's format with all annotations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import PelError
from .base import BoundedFile, Format, Input, NumberedDocs

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc


def _split(file: BoundedFile) -> Iterator[tuple[str, bytes]]:
    from spacy.tokens import DocBin
    from spacy.vocab import Vocab

    try:
        docs = DocBin().from_bytes(file.file.read())
        # Each document with its strings: in a memory zone, those of earlier documents are forgotten.
        for number, doc in enumerate(docs.get_docs(Vocab()), start=1):
            single = DocBin(docs.attrs, store_user_data=True, docs=[doc])
            yield f"document {number}", single.to_bytes()
    except OSError:
        raise
    except Exception as error:  # of zlib, of msgpack, or of its content
        raise PelError("not a DocBin", "write it with DocBin.to_disk") from error


def _doc(nlp: Language | None, data: bytes) -> Doc:
    from spacy.tokens import DocBin
    from spacy.vocab import Vocab

    (doc,) = DocBin().from_bytes(data).get_docs(nlp.vocab if nlp else Vocab())
    return doc


class _Output:
    """Writes a DocBin, which is held in memory when the parts are joined."""

    def write_part(self, docs: NumberedDocs, spans_key: str | None, path: Path) -> None:
        from spacy.tokens import DocBin

        DocBin(store_user_data=True, docs=(doc for _, doc in docs)).to_disk(path)

    def join(self, parts: Sequence[Path], path: Path) -> None:
        from spacy.tokens import DocBin

        docs = DocBin(store_user_data=True)
        for part in parts:
            docs.merge(DocBin(store_user_data=True).from_disk(part))
        docs.to_disk(path)


FORMAT = Format("docbin", (".spacy",), Input(_split, None, has_ids=True, doc=_doc), _Output())
