"""BioC JSON: a collection of documents as one JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from ..errors import PelError
from .bioc_parts import document_of_parts
from .document import Document
from .format import Fault, Input
from .json_array import array_items


def _documents(file: BinaryIO, name: str) -> Iterator[tuple[str, Any]]:
    number = 0
    try:
        for number, document in enumerate(array_items(file, "documents"), start=1):
            yield f"document {number}", _plain_or_fault(document)
    except PelError:
        raise
    except KeyError as error:
        raise PelError("no 'documents' in it", "give a BioC collection") from error
    except UnicodeDecodeError as error:
        raise PelError("not UTF-8", "convert it to UTF-8") from error
    except (ValueError, RecursionError) as error:
        after = f" after document {number}" if number else ""
        raise PelError(f"bad JSON{after} ({error})", "correct it") from error


def _plain_or_fault(document: Any) -> dict[str, Any] | Fault:
    try:
        return _plain_document(document)
    except (AttributeError, KeyError, TypeError) as error:
        return Fault(f"not as BioC has it ({type(error).__name__}: {error})")


def _plain_document(document: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": str(document.get("id", "")),
        "infons": _infons(document),
        "passages": [_plain_passage(passage) for passage in document["passages"]],
        "annotations": _annotations(document),
    }


def _plain_passage(passage: dict[str, Any]) -> dict[str, Any]:
    sentences = passage.get("sentences") or []
    text = passage.get("text")
    holders = [passage] if text or (text is not None and not sentences) else sentences
    return {
        "infons": _infons(passage),
        "texts": [[holder["offset"], holder.get("text") or ""] for holder in holders],
        "annotations": [a for holder in (passage, *sentences) for a in _annotations(holder)],
    }


def _infons(holder: dict[str, Any]) -> dict[str, str]:
    infons = holder.get("infons") or {}
    return {key: str(value) for key, value in infons.items() if value is not None}


def _annotations(holder: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "infons": _infons(annotation),
            "text": annotation.get("text"),
            "locations": [[place["offset"], place["length"]] for place in annotation["locations"]],
        }
        for annotation in holder.get("annotations") or []
    ]


def document_of_bioc(document: dict[str, Any]) -> Document:
    """The document of an object in a BioC collection; PelError if it is not as BioC has it."""
    try:
        parts = _plain_document(document)
    except (AttributeError, KeyError, TypeError) as error:
        problem = f"not as BioC has it ({type(error).__name__}: {error})"
        raise PelError(problem, "correct the document") from error
    return document_of_parts(parts, None)


INPUT = Input(_documents, document_of_parts, has_ids=True)
