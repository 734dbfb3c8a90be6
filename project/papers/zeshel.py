"""Convert ZESHEL, as its authors publish it, to files that every command reads.

Documents are in OUT/SPLIT/WORLD.jsonl, and the sources of "pel kb build" in OUT/worlds/WORLD.jsonl.

python -m papers.zeshel zeshel zeshel/corpora
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from spacy_pel.errors import PelError
from spacy_pel.io.lines import json_object, numbered_lines
from spacy_pel.io.whole_files import whole_file

WORDS = 512  # kept before the first and after the last mention, and of a definition: no encoder reads more


def document_of(id: str, whole: str, mentions: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a document with its mentions, in characters; PelError if a mention differs from its text."""
    tokens = [token.span() for token in re.finditer(r"\S+", whole)]
    for mention in mentions:
        first, last, text = (mention[key] for key in ("start_index", "end_index", "text"))
        if " ".join(whole[a:b] for a, b in tokens[first : last + 1]) != text:
            problem = f"document {id} does not have {text[:60]!r} at tokens {first}-{last}"
            raise PelError(problem, "fetch mentions and documents of the same release")
    first = max(0, min(mention["start_index"] for mention in mentions) - WORDS)
    last = min(len(tokens) - 1, max(m["end_index"] for m in mentions) + WORDS)
    begin, end = tokens[first][0], tokens[last][1]
    annotated = [
        {
            "start": tokens[mention["start_index"]][0] - begin,
            "end": tokens[mention["end_index"]][1] - begin,
            "label": mention["category"],
            "id": mention["label_document_id"],
        }
        for mention in mentions
    ]
    return {"text": whole[begin:end], "id": id, "mentions": annotated}


def entity_of(document: dict[str, Any]) -> dict[str, Any]:
    """Return the entity of a document. Its definition is the text without its title."""
    words = document["text"].removeprefix(document["title"]).split(maxsplit=WORDS)[:WORDS]
    id, title = document["document_id"], document["title"]
    return {"concept_id": id, "canonical_name": title, "definition": " ".join(words) or None}


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a file, one per line; PelError if it cannot be read."""
    return (json_object(line) for _, line in numbered_lines(path))


def main(
    folder: Annotated[Path, typer.Argument(help='ZESHEL, with "mentions" and "documents"')],
    out: Annotated[Path, typer.Argument(help="Folder to make")],
) -> None:
    """Write each split of ZESHEL as files of documents, one per world, and the worlds."""
    for file in sorted((folder / "documents").glob("*.json")):
        with whole_file(out / "worlds" / f"{file.stem}.jsonl") as written:
            for document in json_lines(file):
                entity = {**entity_of(document), "sources": [file.stem]}
                written.write(json.dumps(entity, ensure_ascii=False) + "\n")
    for file in sorted((folder / "mentions").glob("*.json")):
        worlds: dict[str, dict[str, list]] = defaultdict(lambda: defaultdict(list))
        for mention in json_lines(file):
            worlds[mention["corpus"]][mention["context_document_id"]].append(mention)
        for world, mentions in worlds.items():
            with whole_file(out / file.stem / f"{world}.jsonl") as written:
                for record in json_lines(folder / "documents" / f"{world}.json"):
                    if own := mentions.pop(record["document_id"], None):
                        document = document_of(record["document_id"], record["text"], own)
                        written.write(json.dumps(document, ensure_ascii=False) + "\n")
                if mentions:
                    lacking = f"{len(mentions)} documents of {file.stem}, such as {min(mentions)}"
                    raise PelError(f"{folder}: {world} lacks {lacking}", "fetch all of one release")


if __name__ == "__main__":
    typer.run(main)
