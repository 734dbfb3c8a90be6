"""Documents in JSON or in lines of JSON, whose format the keys show.

An object is a document as this package writes it, a task of Prodigy or Label Studio, or a document of
BioC. A file has one object, a list of objects, or an object with a list under "documents": a response
of ``pel serve`` or a BioC collection. ijson reads files as streams.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import PelError
from ...io.lines import json_object
from ...spans import ids_in
from ..doc_conversion import linked_document
from ..document import Document, Mention, checked_mentions, mention_at
from .base import BoundedFile, Format, Input, TextOutput, decoded, filled_lines
from .bioc import document_of_bioc

if TYPE_CHECKING:
    from spacy.tokens import Doc

_REMEDY = "correct the document"
_NOT_ACCEPTED = ("reject", "ignore")  # values of Prodigy's "answer"
# Bytes. ijson parses a string again for each buffer that it extends into, and holds the events of one.
_BUFFER = 2**22


def document_of(record: dict[str, Any]) -> Document:
    """Return the document of an object with "text", and "mentions" or, as in Prodigy, "spans".

    Raises:
        PelError: A key is missing or has the wrong type.
    """
    text, id, meta = record.get("text"), record.get("id"), record.get("meta")
    if not isinstance(text, str):
        raise PelError("'text' is missing or not a string", _REMEDY)
    if "id" not in record and isinstance(meta, dict):
        id = meta.get("id")
    if not isinstance(id, (str, int, type(None))):
        raise PelError("'id' is not a string or an integer", _REMEDY)
    key, id_key = ("mentions", "id") if "mentions" in record else ("spans", "kb_id")
    annotations = record.get(key)
    if annotations is None:
        return Document(text, id)
    if not isinstance(annotations, list):
        raise PelError(f"{key!r} is not a list", _REMEDY)
    mentions, faults = checked_mentions(partial(_mention, text, id_key), annotations)
    chosen = record.get("accept")  # the options that were chosen in Prodigy, for the only span
    if id_key == "kb_id" and len(annotations) == 1 and isinstance(chosen, list):
        mentions = tuple(m if m.ids else m._replace(ids=tuple(map(str, chosen))) for m in mentions)
    return Document(text, id, mentions, faults=faults)


def _mention(text: str, id_key: str, mention: Any) -> Mention:
    if not isinstance(mention, dict):
        raise PelError(f"the mention {reprlib.repr(mention)} is not an object", _REMEDY)
    start, end, label = mention.get("start"), mention.get("end"), mention.get("label") or ""
    if not (isinstance(start, int) and isinstance(end, int) and isinstance(label, str)):
        raise PelError(
            f"the mention {reprlib.repr(mention)} lacks an integer 'start' or 'end'", _REMEDY
        )
    id = mention.get(id_key)
    if not isinstance(id, (str, int, type(None))):
        problem = f"{id_key!r} of the mention {reprlib.repr(mention)} is not a string"
        raise PelError(problem, 'join several ids with "|"')
    return mention_at(text, start, end, label, () if id is None else ids_in(str(id)))


def _lines(file: BoundedFile) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, except tasks that were not accepted in Prodigy."""
    for number, line in filled_lines(file):
        if b'"answer"' in line:
            with suppress(ValueError):  # reported when the document is made
                if json_object(decoded(line)).get("answer") in _NOT_ACCEPTED:
                    file.size = 0
                    continue
        yield number, line


def _document_of_line(line: bytes) -> Document:
    return document_of(json_object(decoded(line)))


def _records(file: BoundedFile) -> Iterator[tuple[str, Any]]:
    """Yield the items of a file's list or of its list under "documents", or else the file's content."""
    import ijson

    whole = ijson.ObjectBuilder()
    events = ijson.parse(file, buf_size=_BUFFER, use_float=True)
    try:
        for n_before, (prefix, event, value) in enumerate(events):
            if event == "start_array" and (not n_before or prefix == "documents"):
                items = ijson.items(events, f"{prefix}.item".lstrip("."))
                for number, record in enumerate(items, start=1):
                    yield f"document {number}", record
                return
            whole.event(event, value)
    except (ijson.JSONError, UnicodeDecodeError, OverflowError) as error:
        raise PelError(f"bad JSON ({str(error).splitlines()[0]})", "correct it") from error
    yield "document 1", whole.value


def _document_of_record(record: Any) -> Document:
    if not isinstance(record, dict):
        remedy = "give documents of this package's JSON, BioC, or a JSON export of Label Studio"
        raise PelError("not a JSON object", remedy)
    if "passages" in record:
        return document_of_bioc(record)
    if "data" in record:
        return _document_of_task(record)
    return document_of(record)


def _line(number: int, doc: Doc, spans_key: str | None) -> str:
    return json.dumps(linked_document(doc, spans_key), ensure_ascii=False) + "\n"


def _prodigy_line(number: int, doc: Doc, spans_key: str | None) -> str:
    document = linked_document(doc, spans_key)
    kept = ("start", "end", "text", "label", "id", "name", "score", "probability")
    names = {key: "kb_id" if key == "id" else key for key in kept}
    spans = [{name: m[key] for key, name in names.items()} for m in document["mentions"]]
    meta = {"meta": {"id": document["id"]}} if "id" in document else {}
    return json.dumps({"text": document["text"], **meta, "spans": spans}, ensure_ascii=False) + "\n"


# Label Studio. A task has its text under "data", and annotations with lists of results. Results with the
# same id are one region: one result has the offsets and the label of a mention, another its entity id.

LABELS, KB_ID = "label", "kb_id"  # names of the tags in the labelling config of docs/linking.md
_TEXT = "text"
_SHAPE = "export it from Label Studio as JSON"
# The types of results that hold the label of a region, and those that may hold its id.
_LABELLING = ("labels", "hypertextlabels")
_ID_VALUES = {"textarea": "text", "choices": "choices", "taxonomy": "taxonomy"}


def _document_of_task(task: dict[str, Any]) -> Document:
    """Return the document of a task. Without an annotation, its mentions are None.

    The annotation is the last one that is marked as ground truth, or else the last one that was not
    cancelled. Predictions of models are ignored.
    """
    try:
        data = task["data"]
        texts = {key: text for key, text in data.items() if key != "id" and isinstance(text, str)}
        if _TEXT not in texts and len(texts) != 1:
            keys = ", ".join(data) or "nothing"
            raise PelError(f"no 'text' in 'data', which has: {keys}", _SHAPE)
        text = texts.get(_TEXT) or next(iter(texts.values()))
        id = data.get("id", task.get("id"))
        annotations = [a for a in task.get("annotations") or () if not a.get("was_cancelled")]
        if not annotations:
            return Document(text, id)
        ground_truth = [a for a in annotations if a.get("ground_truth")]
        regions = _regions((ground_truth or annotations)[-1]["result"])
        mentions, faults = checked_mentions(partial(_region_mention, text), regions)
        return Document(text, id, mentions, faults=faults)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        problem = f"not a task of Label Studio ({type(error).__name__}: {error})"
        raise PelError(problem, _SHAPE) from error


def _regions(results: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """Yield the results with the label of a region, and the entity ids of the region."""
    regions = [result for result in results if result["type"] in _LABELLING]
    region_ids = {region["id"] for region in regions}
    others = [r for r in results if r["type"] in _ID_VALUES and r["id"] in region_ids]
    tags = sorted({result["from_name"] for result in others})
    if len(tags) > 1 and KB_ID not in tags:
        remedy = f'name the tag that holds them "{KB_ID}"'
        raise PelError(f"entity ids may be in any of {', '.join(tags)}", remedy)
    tag = KB_ID if KB_ID in tags else "".join(tags)
    ids = {result["id"]: _ids(result) for result in others if result["from_name"] == tag}
    for region in regions:
        yield region, ids.get(region["id"], ())


def _region_mention(text: str, region_ids: tuple[dict[str, Any], tuple[str, ...]]) -> Mention:
    region, ids = region_ids
    value = region["value"]
    label, *_ = value.get(region["type"]) or [""]
    place = value.get("globalOffsets", value)  # of HyperText
    start, end = place["start"], place["end"]
    if not (isinstance(start, (int, float)) and isinstance(end, (int, float))):
        raise PelError(f"the region {start!r}-{end!r} has no offsets in the text", _SHAPE)
    return mention_at(text, int(start), int(end), label, ids, expected=value.get("text"))


def _ids(result: dict[str, Any]) -> tuple[str, ...]:
    """Return the ids in a result. Each line, choice, or last level of a taxonomy has one or several."""
    values = result["value"][_ID_VALUES[result["type"]]]
    values = [values] if isinstance(values, str) else values
    texts = [value[-1] if isinstance(value, list) else value for value in values]
    return tuple(dict.fromkeys(id for text in texts for id in ids_in(text.strip())))


class _TaskList(TextOutput):
    """A list of tasks with predictions. Parts have one task per line."""

    def join(self, parts: Sequence[Path], path: Path) -> None:
        between = b"[\n"
        with path.open("wb") as file:
            for part in parts:
                with part.open("rb") as tasks:
                    for task in tasks:
                        file.write(between + task.rstrip(b"\n"))
                        between = b",\n"
            file.write(b"[\n]\n" if between == b"[\n" else b"\n]\n")


def _task_line(number: int, doc: Doc, spans_key: str | None) -> str:
    document = linked_document(doc, spans_key)
    results: list[dict[str, Any]] = []
    for n, mention in enumerate(document["mentions"], start=1):
        offsets = {"start": mention["start"], "end": mention["end"]}
        region = {"id": f"m{n}", "to_name": _TEXT}
        value = {**offsets, "text": mention["text"], "labels": [mention["label"]]}
        label = {**region, "from_name": LABELS, "type": "labels", "value": value}
        if mention["score"] is not None:
            label["score"] = mention["score"]
        id_value = {**offsets, "text": [mention["id"]]}
        results += [label, {**region, "from_name": KB_ID, "type": "textarea", "value": id_value}]
    data = {key: document[key] for key in ("id", _TEXT) if key in document}
    task = {"data": data, "predictions": [{"model_version": "spacy_pel", "result": results}]}
    return json.dumps(task, ensure_ascii=False) + "\n"


LINES = Input(_lines, _document_of_line, has_ids=True)
FILE = Input(_records, _document_of_record, has_ids=True)
FORMATS = (
    Format("jsonl", (".jsonl",), LINES, TextOutput(_line)),
    Format("prodigy", (".prodigy.jsonl",), LINES, TextOutput(_prodigy_line)),
    Format("json", (".json",), FILE),
    Format("bioc-json", (".bioc.json", ".biocjson"), FILE),
    Format("label-studio", (".label-studio.json",), FILE, _TaskList(_task_line)),
)
