"""Label Studio's tasks, as its JSON export has them, and as its import takes predictions.

A task has its text under ``data``. What was marked is a list of results. Results with the same id
are of one region: one has the place and the label of a mention, another its entity id.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from ..errors import PelError
from ..spans import ids_in
from .docs import linked_document
from .document import Document, Mention, mention_at

if TYPE_CHECKING:
    from spacy.tokens import Doc

LABELS, KB_ID = "label", "kb_id"  # names of the tags in the labelling config of docs/linking.md
_TEXT = "text"
_SHAPE = "export it from Label Studio as JSON"
# The types of results that hold the label of a region, and those that may hold its id.
_LABELLING = ("labels", "hypertextlabels")
_ANSWERS = {"textarea": "text", "choices": "choices", "taxonomy": "taxonomy"}


def document_of_task(task: dict[str, Any]) -> Document:
    """The document of a task.

    Of several annotations the one counts that is marked as ground truth, or else the last one that
    was not cancelled. Without an annotation the mentions are still to be found; predictions of
    models are not read.

    Raises:
        PelError: If the task is not as Label Studio exports it, or a mention is not in its text.
    """
    try:
        text = _text_of(task["data"])
        id = task["data"].get("id", task.get("id"))
        annotation = _annotation(task.get("annotations") or [])
        if annotation is None:
            return Document(text, id)
        return Document(text, id, tuple(_mentions(text, annotation["result"])))
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        problem = f"not a task of Label Studio ({type(error).__name__}: {error})"
        raise PelError(problem, _SHAPE) from error


def _text_of(data: dict[str, Any]) -> str:
    texts = {key: text for key, text in data.items() if key != "id" and isinstance(text, str)}
    if _TEXT not in texts and len(texts) != 1:
        raise PelError(f"no 'text' in 'data', which has: {', '.join(data) or 'nothing'}", _SHAPE)
    return texts.get(_TEXT) or next(iter(texts.values()))


def _annotation(annotations: list[dict[str, Any]]) -> dict[str, Any] | None:
    done = [annotation for annotation in annotations if not annotation.get("was_cancelled")]
    true = [annotation for annotation in done if annotation.get("ground_truth")]
    return (true or done or [None])[-1]


def _mentions(text: str, results: list[dict[str, Any]]) -> Iterable[Mention]:
    regions = [result for result in results if result["type"] in _LABELLING]
    ids = _ids_by_region(results, {region["id"] for region in regions})
    for region in regions:
        value = region["value"]
        label, *_ = value.get(region["type"]) or [""]
        own = ids.get(region["id"], ())
        yield mention_at(text, *_place(value), label, own, expected=value.get("text"))


def _place(value: dict[str, Any]) -> tuple[int, int]:
    """Where a region begins and ends; of HyperText, offsets stand in a key of their own."""
    place = value.get("globalOffsets", value)
    start, end = place["start"], place["end"]
    if not (isinstance(start, (int, float)) and isinstance(end, (int, float))):
        raise PelError(f"the region {start!r}-{end!r} has no offsets in the text", _SHAPE)
    return int(start), int(end)


def _ids_by_region(
    results: list[dict[str, Any]], regions: Collection[str]
) -> dict[str, tuple[str, ...]]:
    answers = [r for r in results if r["type"] in _ANSWERS and r["id"] in regions]
    names = sorted({result["from_name"] for result in answers})
    if len(names) > 1 and KB_ID not in names:
        raise PelError(
            f"entity ids may be in any of {', '.join(names)}",
            f'name the tag that holds them "{KB_ID}"',
        )
    name = KB_ID if KB_ID in names else "".join(names)
    return {r["id"]: _ids(r) for r in answers if r["from_name"] == name}


def _ids(result: dict[str, Any]) -> tuple[str, ...]:
    """The ids of a region: each line, choice, or last step in a taxonomy is one or more."""
    given = result["value"][_ANSWERS[result["type"]]]
    texts = [value[-1] if isinstance(value, list) else value for value in _listed(given)]
    return tuple(dict.fromkeys(id for text in texts for id in ids_in(text.strip())))


def _listed(given: str | list) -> list:
    return [given] if isinstance(given, str) else given


def task_line(number: int, doc: Doc, spans_key: str | None) -> str:
    """A linked doc as a line with a task that has predictions."""
    document = linked_document(doc, spans_key)
    id = {"id": document["id"]} if "id" in document else {}
    results = [r for n, m in enumerate(document["mentions"], start=1) for r in _results(n, m)]
    task = {
        "data": {**id, _TEXT: document["text"]},
        "predictions": [{"model_version": "spacy_pel", "result": results}],
    }
    return json.dumps(task, ensure_ascii=False) + "\n"


def _results(number: int, mention: dict[str, Any]) -> list[dict[str, Any]]:
    place = {"start": mention["start"], "end": mention["end"]}
    region = {"id": f"m{number}", "to_name": _TEXT}
    marked = {**place, "text": mention["text"], "labels": [mention["label"]]}
    label = {**region, "from_name": LABELS, "type": "labels", "value": marked}
    if mention["score"] is not None:
        label["score"] = mention["score"]
    answer = {**place, "text": [mention["id"]]}
    return [label, {**region, "from_name": KB_ID, "type": "textarea", "value": answer}]
