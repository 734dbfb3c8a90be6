"""JSON files of documents: their keys say whose they are. A file is held in memory.

An object is one document, as the page of ``pel serve`` exports it. A list has documents, or tasks of
Label Studio. An object with ``documents`` is an answer of the API, or a BioC collection.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from ..errors import PelError
from .bioc_json import document_of_bioc
from .document import Document
from .format import Input, decoded, whole
from .json_documents import document_of
from .label_studio import document_of_label_studio

_REMEDY = "give documents of this package's JSON, BioC, or a JSON export of Label Studio"


def _documents(file: BinaryIO, name: str) -> Iterator[tuple[str, Any]]:
    try:
        held = json.loads(decoded(whole(file)).removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise PelError(f"bad JSON ({error.msg} in line {error.lineno})", "correct it") from error
    except RecursionError as error:
        raise PelError("bad JSON (nested too deeply)", "correct it") from error
    if isinstance(held, dict):
        held = held.get("documents", [held])
    if not isinstance(held, list):
        raise PelError("no documents in it", _REMEDY)
    for number, record in enumerate(held, start=1):
        yield f"document {number}", record


def _document(record: Any, spans_key: str | None) -> Document:
    if not isinstance(record, dict):
        raise PelError("not a JSON object", _REMEDY)
    if "passages" in record:
        return document_of_bioc(record)
    if "data" in record:
        return document_of_label_studio(record)
    if "annotation_id" in record:
        raise PelError(
            "a task of Label Studio's JSON_MIN, which does not say whose the entity ids are",
            "export it as JSON",
        )
    return document_of(record)


INPUT = Input(_documents, _document, has_ids=True)
