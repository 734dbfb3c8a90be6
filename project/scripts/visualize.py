"""Write linked texts as an HTML page with displaCy."""

from html import escape
from pathlib import Path
from urllib.parse import quote

import srsly
import typer
from spacy import displacy

ENTITY_URL = "https://uts.nlm.nih.gov/uts/umls/concept/{}"


def main(linked: Path, page: Path) -> None:
    """Write PAGE, an HTML page of LINKED, a JSONL file that "pel link" wrote."""
    documents = [
        {
            "text": document["text"],
            "title": None,
            "ents": [
                {
                    "start": mention["start"],
                    "end": mention["end"],
                    "label": escape(mention["name"] or "not in the KB"),
                    "kb_id": escape(mention["id"]),
                    "kb_url": ENTITY_URL.format(quote(mention["id"])) if mention["name"] else "#",
                }
                for mention in document["mentions"]
            ],
        }
        for document in srsly.read_jsonl(linked)
    ]
    page.write_text(displacy.render(documents, style="ent", manual=True, page=True), "utf8")
    print(f"{page}: {len(documents)} texts")


if __name__ == "__main__":
    typer.run(main)
