"""Print linked texts, each mention with its id, name and score."""

from pathlib import Path

import srsly
import typer


def main(linked: Path) -> None:
    """Print LINKED, a JSONL file that "pel link" wrote.

    A mention that is NIL is printed with the name of the candidate that was rejected.
    """
    for document in srsly.read_jsonl(linked):
        print(f"\n{document['text']}")
        for mention in document["mentions"]:
            name = mention["name"] or f"not {mention['candidates'][0]['name']}"
            words, id, score = mention["text"], mention["id"], mention["score"]
            print(f"    {words:<28} {id:<8}  {name:<36} {score:.2f}")


if __name__ == "__main__":
    typer.run(main)
