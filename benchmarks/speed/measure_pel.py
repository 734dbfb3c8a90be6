"""Measure a pipeline of this project; ``run.py`` runs it.

    python measure_pel.py PIPELINE KB SETTINGS DOCUMENTS.json

SETTINGS are attributes of the component "proxy_linker", as JSON.
"""

from protocol import Document, doc_of, report  # first: the clock starts here

# isort: split
import json
import sys

import spacy


def main(pipeline: str, kb: str, settings: str, documents: str) -> None:
    nlp = spacy.load(pipeline, config={"components": {"proxy_linker": json.loads(settings)}})
    nlp.select_pipes(enable="proxy_linker")  # mentions are given
    linker = nlp.get_pipe("proxy_linker")
    linker.set_kb(kb)

    def link(batch: list[Document]) -> list[list[str]]:
        docs = [doc_of(nlp.vocab, document) for document in batch]
        return [
            mention._.kb_candidate_columns.get("id", [])
            for doc in nlp.pipe(docs)
            for mention in doc.ents
        ]

    report(documents, link)


if __name__ == "__main__":
    main(*sys.argv[1:])
