"""Print linked texts: each mention with its id, name and score; of NIL, what was rejected."""

from pathlib import Path

import srsly
import typer


def main(linked: Path) -> None:
    """Print what "pel link" wrote to LINKED."""
    for document in srsly.read_jsonl(linked):
        print(f"\n{document['text']}")
        for mention in document["mentions"]:
            if not mention["candidates"]:
                print(f"    {mention['text']:<28} without a candidate")
                continue
            name = mention["name"] or f"not {mention['candidates'][0]['name']}"
            print(
                f"    {mention['text']:<28} {mention['id']:<8}  {name:<36} {mention['score']:.2f}"
            )


if __name__ == "__main__":
    typer.run(main)
