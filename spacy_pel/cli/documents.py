"""Documents to link, from text, JSONL and DocBin files, one at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.util import filter_spans

from ..errors import PelError
from ..kb.readers.jsonl import json_object
from ..kb.readers.lines import numbered_lines
from ..training.corpus import split_tokens

STDIN = "-"
DEFAULT_LABEL = "MENTION"  # spaCy takes no entity without a label


def read_documents(nlp: Language, source: str, spans_key: Optional[str] = None) -> Iterator[Doc]:
    """The documents of a .txt, .jsonl (both also .gz) or .spacy file, or of stdin, as a stream.

    Text: a document a line; blank lines are skipped. JSONL: objects with "text" and, if wanted,
    "id" (kept as ``doc.user_data["id"]``) and "mentions": [{"start", "end", "label"}] in
    characters, white space at their edges aside, which go to ``doc.spans[spans_key]``, or
    ``doc.ents`` if that is None; those without a label get DEFAULT_LABEL. A .spacy file is read
    whole by spaCy, and its docs are made one by one. source: the file, or "-" for text on stdin.
    Raises PelError if there is no such file, and, with file and line, for each fault in it.
    """
    if source == STDIN:
        return _from_text(nlp, "stdin", _stdin_lines())
    path, kinds = Path(source), "give a .txt, .jsonl or .spacy file, or - for text on stdin"
    if not path.is_file():
        raise PelError(f"{source}: no such file; {kinds}")
    name = path.name.removesuffix(".gz")
    if name.endswith(".txt"):
        return _from_text(nlp, source, numbered_lines(path))
    if name.endswith(".jsonl"):
        return _from_jsonl(nlp, path, spans_key)
    if path.suffix == ".spacy":
        return _from_docbin(nlp, path)
    raise PelError(f"{source}: unknown kind of file; {kinds}")


def gives_mentions(doc: Doc, spans_key: Optional[str]) -> bool:
    """Whether mentions were given for a document, be it none at all."""
    return spans_key in doc.spans if spans_key else doc.has_annotation("ENT_IOB")


def _stdin_lines() -> Iterator[tuple[int, str]]:
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield number, line.decode("utf8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise PelError(f"stdin, line {number}: not UTF-8; convert it to UTF-8") from error


def _from_text(nlp: Language, source: str, lines: Iterator[tuple[int, str]]) -> Iterator[Doc]:
    for number, line in lines:
        if line.strip():
            try:
                doc = nlp.make_doc(line)
            except ValueError as error:
                raise PelError(f"{source}, line {number}: {_first_line(error)}") from error
            yield doc


def _from_jsonl(nlp: Language, path: Path, spans_key: Optional[str]) -> Iterator[Doc]:
    for number, line in numbered_lines(path):
        if line.strip():
            try:
                doc = _document(nlp, json_object(line), spans_key)
            except ValueError as error:
                raise PelError(
                    f"{path}, line {number}: {_first_line(error)}; correct the line"
                ) from error
            yield doc


def _from_docbin(nlp: Language, path: Path) -> Iterator[Doc]:
    try:
        docs = DocBin().from_disk(path)
    except OSError:
        raise
    except Exception as error:  # of zlib, of msgpack, or of what it holds
        raise PelError(f"{path}: not a DocBin; write it with DocBin.to_disk") from error
    # get_docs does so at its first document: in a memory zone, where it would not last.
    for string in docs.strings:
        nlp.vocab.strings.add(string)
    return docs.get_docs(nlp.vocab)


def _document(nlp: Language, record: dict[str, Any], spans_key: Optional[str]) -> Doc:
    """The document of a JSONL object; ValueError says what is wrong with it."""
    text, id = record.get("text"), record.get("id")
    if not isinstance(text, str):
        raise ValueError("'text' is missing or not a string")
    if not isinstance(id, (str, int, type(None))):
        raise ValueError("'id' is not a string or an integer")
    doc = nlp.make_doc(text)
    if id is not None:
        doc.user_data["id"] = id
    if "mentions" in record:
        _set_mentions(doc, record["mentions"], spans_key)
    return doc


def _set_mentions(doc: Doc, mentions: Any, spans_key: Optional[str]) -> None:
    if not isinstance(mentions, list):
        raise ValueError("'mentions' is not a list")
    bounds = [_bounds(doc.text, mention) for mention in mentions]
    split_tokens(doc, {offset for start, end, _ in bounds for offset in (start, end)})
    spans = [doc.char_span(start, end, label=label) for start, end, label in bounds]
    if spans_key:
        doc.spans[spans_key] = spans
    elif len(filter_spans(spans)) < len(spans):
        raise ValueError("mentions overlap; set --spans-key to allow that")
    else:
        doc.ents = spans


def _bounds(text: str, mention: Any) -> tuple[int, int, str]:
    """Start and end, in characters, and label of a mention, without white space at its edges."""
    if not isinstance(mention, dict):
        raise ValueError(f"the mention {mention!r} is not an object")
    start, end, label = mention.get("start"), mention.get("end"), mention.get("label", "")
    if not (isinstance(start, int) and isinstance(end, int) and isinstance(label, str)):
        raise ValueError(f"the mention {mention!r} lacks an integer 'start' or 'end'")
    if not 0 <= start < end <= len(text):
        raise ValueError(f"the mention {start}-{end} is not in the {len(text)} characters of text")
    inner = text[start:end]
    if not inner.strip():
        raise ValueError(f"the mention {start}-{end} is blank")
    return end - len(inner.lstrip()), start + len(inner.rstrip()), label or DEFAULT_LABEL


def _first_line(error: ValueError) -> str:
    return str(error).splitlines()[0]
