"""Print linked texts, each mention with its id, name and score, and write them as an HTML page."""

from html import escape
from pathlib import Path
from urllib.parse import quote

import srsly
import typer
from spacy import displacy

ENTITY_URL = "https://uts.nlm.nih.gov/uts/umls/concept/{}"


def main(linked: Path, page: Path) -> None:
    """Print LINKED, a JSONL file that "pel link" wrote, and write it to PAGE with displaCy.

    A mention that is NIL is printed with the name of the candidate that was rejected.
    """
    documents = []
    for document in srsly.read_jsonl(linked):
        print(f"\n{document['text']}")
        for mention in document["mentions"]:
            name = mention["name"] or f"not {mention['candidates'][0]['name']}"
            words, id, score = mention["text"], mention["id"], mention["score"]
            print(f"    {words:<28} {id:<8}  {name:<36} {score:.2f}")
        # As displaCy takes them.
        ents = [
            {
                **{key: mention[key] for key in ("start", "end")},
                "label": escape(mention["name"] or "not in the KB"),
                "kb_id": escape(mention["id"]),
                "kb_url": ENTITY_URL.format(quote(mention["id"])) if mention["name"] else "#",
            }
            for mention in document["mentions"]
        ]
        documents.append({"text": document["text"], "title": None, "ents": ents})
    page.write_text(displacy.render(documents, style="ent", manual=True, page=True), "utf8")


if __name__ == "__main__":
    typer.run(main)
