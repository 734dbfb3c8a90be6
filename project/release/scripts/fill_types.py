"""Give entities of a KB that have no type the types that all entities near them have.

Some copies of MeSH lack the tree numbers of newer descriptors, and so their types. Of entities with types, held
out, 98 % of the types that are given this way are right; a third gets one.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import spacy
import typer

from spacy_pel.curation.kb_encoder import KBEncoder
from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.change import change_entities
from spacy_pel.pipeline.pipelines import linker_of

NEAR, SEARCHED = 7, 40  # entities with types, and all that are searched for them


def main(folder: Path, pipeline: Path) -> None:
    """Change the descriptors of the KB in FOLDER, which the linker of PIPELINE has embedded."""
    with KnowledgeBase.open(folder) as kb:
        entities = dict(zip(kb.numbers().tolist(), kb))
        lacking = [n for n, e in entities.items() if not e.types and e.concept_id[0] == "D"]
        vectors, places = kb.rows(lacking)
        first = np.unique(places, return_index=True)[1]  # of each its canonical name
        found = kb.search(vectors[first], SEARCHED)
    new = []
    for number, row in zip(lacking, found.numbers.tolist()):
        near = [entities[n].types for n in row if n >= 0 and entities[n].types][:NEAR]
        counts = Counter(type for types in near for type in types)
        if types := tuple(type for type, count in counts.items() if count == NEAR):
            new.append(entities[number]._replace(types=types))
    if new:
        encoder = KBEncoder(linker_of(spacy.load(pipeline), "proxy_linker"))
        change_entities(folder, "update", new, encoder)
    print(f"{folder}: {len(new):,} of {len(lacking):,} descriptors without a type have one now")


if __name__ == "__main__":
    typer.run(main)
