"""DocBin: spaCy's own format, with all annotations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ..errors import PelError
from ..spans import gold_ids, mention_spans
from .docs import gives_mentions
from .document import Document, Mention, mention_at
from .format import LONGEST, Fault, Input, whole

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Span


def _docs(file: BinaryIO, name: str) -> Iterator[tuple[str, Any]]:
    from spacy.tokens import DocBin
    from spacy.vocab import Vocab

    from .docbin_limits import is_too_long, limited_docbin

    try:
        docs = limited_docbin(whole(file))
        # Each on its own, with its strings: in a memory zone, those of an earlier one are forgotten.
        for number, doc in enumerate(docs.get_docs(Vocab()), start=1):
            if is_too_long(doc):
                yield f"document {number}", Fault(f"longer than {LONGEST:,} characters", "split it")
            else:
                alone = DocBin(docs.attrs, store_user_data=True, docs=[doc])
                yield f"document {number}", alone.to_bytes()
    except (OSError, PelError):
        raise
    except Exception as error:  # of zlib, of msgpack, or of what it holds
        raise PelError("not a DocBin", "write it with DocBin.to_disk") from error


def _doc(nlp: Language, data: bytes) -> Doc:
    from spacy.tokens import DocBin

    (doc,) = DocBin().from_bytes(data).get_docs(nlp.vocab)
    return doc


def _document(data: bytes, spans_key: str | None) -> Document:
    """The document of a Doc; its mentions are the group of this key, where it has it, or ents."""
    from spacy.tokens import DocBin
    from spacy.vocab import Vocab

    (doc,) = DocBin().from_bytes(data).get_docs(Vocab())
    key = spans_key if gives_mentions(doc, spans_key) else None
    mentions = None
    if gives_mentions(doc, key):
        mentions = tuple(_mention(doc.text, span) for span in mention_spans(doc, key))
    return Document(doc.text, doc.user_data.get("id"), mentions)


def _mention(text: str, span: Span) -> Mention:
    return mention_at(text, span.start_char, span.end_char, span.label_, gold_ids(span))


class _Output:
    """A DocBin is one object: it is held in memory when the parts are joined."""

    def write_part(
        self, docs: Iterable[tuple[int, Doc]], spans_key: str | None, path: Path
    ) -> None:
        from spacy.tokens import DocBin

        DocBin(store_user_data=True, docs=(doc for _, doc in docs)).to_disk(path)

    def join(self, parts: Sequence[Path], path: Path) -> None:
        from spacy.tokens import DocBin

        docs = DocBin(store_user_data=True)
        for part in parts:
            docs.merge(DocBin(store_user_data=True).from_disk(part))
        docs.to_disk(path)


INPUT = Input(_docs, _document, has_ids=True, doc=_doc)
OUTPUT = _Output()
