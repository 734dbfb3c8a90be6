"""Documents in JSON: an object a line, or a file whose keys say whose it is.

An object is a document as this package writes it, a task of Prodigy or of Label Studio, or a document
of BioC. A file holds one object, or a list of them; or an object with a list under "documents", which
is an answer of the API of ``pel serve``, or a BioC collection. ijson reads files as streams.
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
from ...io.lines import MAX_JSON_VALUES, json_object
from ...spans import ids_in
from ..doc_conversion import linked_document
from ..document import Document, Mention, checked_mentions, mention_at
from .base import BoundedFile, Format, Input, TextOutput, decoded, filled_lines
from .bioc import document_of_bioc

if TYPE_CHECKING:
    from spacy.tokens import Doc

_REMEDY = "correct the document"
_NOT_ACCEPTED = ("reject", "ignore")  # answers of Prodigy's users
_MAX_DEPTH = 100  # levels of nesting
# Bytes. ijson reads a string again for each buffer that it reaches into, and holds the events of one.
_BUFFER = 2**22


def document_of(record: dict[str, Any]) -> Document:
    """The document of an object with "text", and "mentions" or, as Prodigy has them, "spans".

    PelError if a key is missing or of the wrong type, or a mention is not in the text.
    """
    text, id, meta = record.get("text"), record.get("id"), record.get("meta")
    if not isinstance(text, str):
        raise PelError("'text' is missing or not a string", _REMEDY)
    if "id" not in record and isinstance(meta, dict):
        id = meta.get("id")
    if not isinstance(id, (str, int, type(None))):
        raise PelError("'id' is not a string or an integer", _REMEDY)
    key, id_key = ("mentions", "id") if "mentions" in record else ("spans", "kb_id")
    given = record.get(key)
    if given is None:
        return Document(text, id)
    if not isinstance(given, list):
        raise PelError(f"{key!r} is not a list", _REMEDY)
    mentions, faults = checked_mentions(partial(_mention, text, id_key), given)
    chosen = record.get("accept")  # the options that Prodigy's user chose, of the only span
    if id_key == "kb_id" and len(given) == 1 and isinstance(chosen, list):
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
    """The filled lines, without the tasks that Prodigy's users did not accept."""
    for number, line in filled_lines(file):
        if b'"answer"' in line:
            with suppress(ValueError):  # it is reported when the document is made
                if json_object(decoded(line)).get("answer") in _NOT_ACCEPTED:
                    file.size = 0
                    continue
        yield number, line


def _document_of_line(line: bytes) -> Document:
    return document_of(json_object(decoded(line)))


def _records(file: BoundedFile) -> Iterator[tuple[str, Any]]:
    """The items of the list that a file holds, or has under "documents"; else what it holds."""
    import ijson

    depth, size, key = 0, 0, ""
    whole = ijson.ObjectBuilder()

    def shallow() -> Iterator[tuple[str, Any]]:
        nonlocal depth, size
        for event, value in ijson.basic_parse(file, buf_size=_BUFFER, use_float=True):
            depth += event.startswith("start_") - event.startswith("end_")
            size += 1
            if depth > _MAX_DEPTH:
                raise PelError(f"JSON of more than {_MAX_DEPTH} levels", "correct it")
            if size > MAX_JSON_VALUES:
                raise PelError(f"a document of more than {MAX_JSON_VALUES:,} values", "split it")
            yield event, value

    def of_list(level: int) -> Iterator[tuple[str, str, Any]]:
        """The events in a list, as those of an item, and those that follow it.

        ijson's own prefixes have the keys above each value: a small file may make them endless.
        """
        is_inside = True
        for event, value in events:
            is_inside = is_inside and depth >= level
            yield "item" if is_inside else "", event, value

    events = shallow()
    try:
        for event, value in events:
            if event == "map_key" and depth == 1:
                key = value
            if event == "start_array" and (depth == 1 or (depth, key) == (2, "documents")):
                for number, record in enumerate(ijson.items(of_list(depth), "item"), start=1):
                    yield f"document {number}", record
                    size = 0
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


# Label Studio. A task has its text under "data". What was marked is a list of results. Results with
# the same id are of one region: one has the place and the label of a mention, another its entity id.

LABELS, KB_ID = "label", "kb_id"  # names of the tags in the labelling config of docs/linking.md
_TEXT = "text"
_SHAPE = "export it from Label Studio as JSON"
# The types of results that hold the label of a region, and those that may hold its id.
_LABELLING = ("labels", "hypertextlabels")
_ANSWERS = {"textarea": "text", "choices": "choices", "taxonomy": "taxonomy"}


def _document_of_task(task: dict[str, Any]) -> Document:
    """The document of a task; without an annotation the mentions are still to be found.

    Of several annotations the last one counts that is marked as ground truth, or else the last one
    that was not cancelled. Predictions of models are not read.
    """
    try:
        data = task["data"]
        texts = {key: text for key, text in data.items() if key != "id" and isinstance(text, str)}
        if _TEXT not in texts and len(texts) != 1:
            has = ", ".join(data) or "nothing"
            raise PelError(f"no 'text' in 'data', which has: {has}", _SHAPE)
        text = texts.get(_TEXT) or next(iter(texts.values()))
        id = data.get("id", task.get("id"))
        done = [each for each in task.get("annotations") or () if not each.get("was_cancelled")]
        true = [each for each in done if each.get("ground_truth")]
        if not done:
            return Document(text, id)
        regions = _regions((true or done)[-1]["result"])
        mentions, faults = checked_mentions(partial(_region_mention, text), regions)
        return Document(text, id, mentions, faults=faults)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        problem = f"not a task of Label Studio ({type(error).__name__}: {error})"
        raise PelError(problem, _SHAPE) from error


def _regions(results: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """The results that mark a region, and the ids of each."""
    regions = [result for result in results if result["type"] in _LABELLING]
    places = {region["id"] for region in regions}
    answers = [r for r in results if r["type"] in _ANSWERS and r["id"] in places]
    names = sorted({result["from_name"] for result in answers})
    if len(names) > 1 and KB_ID not in names:
        remedy = f'name the tag that holds them "{KB_ID}"'
        raise PelError(f"entity ids may be in any of {', '.join(names)}", remedy)
    name = KB_ID if KB_ID in names else "".join(names)
    ids = {answer["id"]: _ids(answer) for answer in answers if answer["from_name"] == name}
    for region in regions:
        yield region, ids.get(region["id"], ())


def _region_mention(text: str, marked: tuple[dict[str, Any], tuple[str, ...]]) -> Mention:
    region, ids = marked
    value = region["value"]
    label, *_ = value.get(region["type"]) or [""]
    place = value.get("globalOffsets", value)  # of HyperText
    start, end = place["start"], place["end"]
    if not (isinstance(start, (int, float)) and isinstance(end, (int, float))):
        raise PelError(f"the region {start!r}-{end!r} has no offsets in the text", _SHAPE)
    return mention_at(text, int(start), int(end), label, ids, expected=value.get("text"))


def _ids(answer: dict[str, Any]) -> tuple[str, ...]:
    """The ids of a region: each line, choice, or last step in a taxonomy is one or more."""
    given = answer["value"][_ANSWERS[answer["type"]]]
    given = [given] if isinstance(given, str) else given
    texts = [value[-1] if isinstance(value, list) else value for value in given]
    return tuple(dict.fromkeys(id for text in texts for id in ids_in(text.strip())))


class _TaskList:
    """Tasks that have predictions, as a list; parts have a task a line."""

    def __init__(self) -> None:
        self.write_part = TextOutput(_task_line).write_part

    def join(self, parts: Sequence[Path], path: Path) -> None:
        between = b"[\n"
        with open(path, "wb") as file:
            for part in parts:
                with open(part, "rb") as tasks:
                    for task in tasks:
                        file.write(between + task.rstrip(b"\n"))
                        between = b",\n"
            file.write(b"[\n]\n" if between == b"[\n" else b"\n]\n")


def _task_line(number: int, doc: Doc, spans_key: str | None) -> str:
    document = linked_document(doc, spans_key)
    results: list[dict[str, Any]] = []
    for n, mention in enumerate(document["mentions"], start=1):
        place = {"start": mention["start"], "end": mention["end"]}
        region = {"id": f"m{n}", "to_name": _TEXT}
        marked = {**place, "text": mention["text"], "labels": [mention["label"]]}
        label = {**region, "from_name": LABELS, "type": "labels", "value": marked}
        if mention["score"] is not None:
            label["score"] = mention["score"]
        answer = {**place, "text": [mention["id"]]}
        results += [label, {**region, "from_name": KB_ID, "type": "textarea", "value": answer}]
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
    Format("label-studio", (".label-studio.json",), FILE, _TaskList()),
)
