"""Write MedMentions with what is known of the kinds of its mentions.

    python scripts/kinds_of_mentions.py kb/MeSH data/corpora/medmentions/train.pubtator.txt.gz OUT.pubtator

It says of no mention what kind it is. A mention gets the label "Disease|ENTITY" if a name of a disease of MeSH
lies in some mention of its entity, "Chemical|ENTITY" for a chemical, and otherwise "ENTITY". The recogniser may
then take it for either of the two.
"""

from collections import defaultdict
from pathlib import Path

import typer

from spacy_pel.documents.open_documents import open_documents
from spacy_pel.documents.pubtator import pubtator_text
from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.name_finder import NameFinder
from spacy_pel.system.whole_files import whole_file

TYPES = {"Disease": ["Diseases"], "Chemical": ["Chemical or Drug"]}
ANY = "ENTITY"


def main(kb: Path, mentions: Path, out: Path) -> None:
    """Write the file OUT."""
    base = KnowledgeBase.open(kb)
    finder = NameFinder.of(base)
    numbers = {kind: set(base.of_types(*types).tolist()) for kind, types in TYPES.items()}
    documents = [raw.document(None) for raw in open_documents(str(mentions))]
    kinds = defaultdict(set)
    for mention in (mention for document in documents for mention in document.mentions):
        owners = {o for *_, own in finder.found(mention.text) for o in own.tolist()}
        kinds[mention.ids] |= {kind for kind, own in numbers.items() if own & owners}
    with whole_file(out) as file:
        for document in documents:
            labelled = [
                mention._replace(label="|".join([*sorted(kinds[mention.ids]), ANY]))
                for mention in document.mentions
            ]
            file.write(pubtator_text(document._replace(mentions=labelled)))
    print(f"{out}: {len(documents):,} documents")


if __name__ == "__main__":
    typer.run(main)
